/* Copyright: (c) 2026, The berth.kvm authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stands in for the Python of a simulated host: FLEET/hosts/HOST/python. It reads a module as Ansible sends it and answers
 * with the recorded reply of that module; for one that has none it runs simulated_host.py. To FLEET/log it writes a line for
 * each run: the module, the bytes that were sent, and the CPU microseconds of the host's own part.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *sent;
static size_t length;

static void read_all(void) {
    size_t room = 0;
    ssize_t got;
    do {
        if (room - length < 65536)
            sent = realloc(sent, room = room ? room * 2 : 1 << 19);
        got = read(0, sent + length, room - length - 1);
        length += got > 0 ? got : 0;
    } while (got > 0);
    sent[length] = 0;
}

/* What stands after the last `name='` up to the quote, without a folder of dots. */
static void module_name(char *name, size_t size) {
    const char *key = "module_fqn='", *last = NULL, *at = sent;
    while ((at = memmem(at, sent + length - at, key, strlen(key))))
        last = at += strlen(key);
    const char *end = last ? strchr(last, '\'') : NULL;
    const char *begin = end ? memrchr(last, '.', end - last) : NULL;
    snprintf(name, size, "%.*s", begin ? (int)(end - begin - 1) : 1, begin ? begin + 1 : "?");
}

static void write_all(int to, const char *text, size_t size) {
    for (ssize_t wrote; size > 0 && (wrote = write(to, text, size)) > 0; text += wrote)
        size -= wrote;
}

/* As AnsibleModule does, the reply says with which arguments the module was run. They came as JSON in a literal of Python. */
static void invocation(void) {
    const char *key = "params='{\"ANSIBLE_MODULE_ARGS\": ", *at = memmem(sent, length, key, strlen(key));
    const char *end = at ? strstr(at, "}',\n") : NULL;
    if (!end)
        return;
    at += strlen(key);
    char *arguments = malloc(end - at), *to = arguments;
    while (at < end) {
        at += *at == '\\';
        *to++ = *at++;
    }
    write_all(1, ", \"invocation\": {\"module_args\": ", 31);
    write_all(1, arguments, to - arguments);
    write_all(1, "}", 1);
}

static int recorded(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    off_t size = lseek(file, 0, SEEK_END);
    char *reply = malloc(size + 1);
    size = pread(file, reply, size, 0);
    while (size > 0 && reply[size - 1] != '}')
        size--;
    write_all(1, reply, size - 1);
    invocation();
    write_all(1, "}\n", 2);
    return 1;
}

static void run_script(const char *script, const char *folder, const char *name) {
    int ends[2];
    if (pipe(ends))
        _exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        execl("/usr/bin/python3", "python3", "-I", "-S", script, folder, name, (char *)NULL);
        _exit(1);
    }
    close(ends[0]);
    write_all(ends[1], sent, length);
    close(ends[1]);
    waitpid(child, NULL, 0);
}

static long spent(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return 1000000 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int argc, char **argv) {
    char *folder = strdup(argv[0]), name[128], path[4096], line[256];
    *strrchr(folder, '/') = 0;
    read_all();
    module_name(name, sizeof name);
    int moves = !!memmem(sent, length, "\"moves\": true", 13), digests = !!memmem(sent, length, "\"digests\": true", 15);
    snprintf(path, sizeof path, "%s/%s%s.json", folder, name, moves ? "-moves" : digests ? "-digests" : "");
    if (!recorded(path)) {
        snprintf(path, sizeof path, "%s/../../simulated_host.py", folder);
        run_script(path, folder, name);
    }
    int size = snprintf(line, sizeof line, "%s %zu %ld\n", name, length, spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN));
    snprintf(path, sizeof path, "%s/../../log", folder);
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log >= 0)
        write_all(log, line, size);
    return 0;
}
