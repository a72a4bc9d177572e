/* Copyright: (c) 2026, The berth.kvm authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Preloaded into a lab host's libvirtd, and by it into QEMU. What libvirtd does not read from files it asks the C library:
 * how much memory there is. And what it does with CPUs and NUMA nodes that only the files have must not fail: pinning to
 * CPU n goes to CPU n modulo those that exist, memory policies are accepted and ignored.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static unsigned long long fake_bytes(void)
{
    const char *kib = getenv("BERTH_LAB_MEM_KIB");
    return kib ? strtoull(kib, NULL, 10) * 1024 : 0;
}

int sysinfo(struct sysinfo *info)
{
    int result = syscall(SYS_sysinfo, info);
    unsigned long long total = fake_bytes();

    if (result == 0 && total) {
        unsigned long long real_free = (unsigned long long)info->freeram * info->mem_unit;
        info->mem_unit = 1;
        info->totalram = total;
        info->freeram = real_free < total ? real_free : total;
    }
    return result;
}

long sysconf(int name)
{
    static long (*real)(int);

    if (!real)
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    if (name == _SC_PHYS_PAGES && fake_bytes())
        return fake_bytes() / real(_SC_PAGESIZE);
    return real(name);
}

/* The CPUs that this process may really run on, whatever /sys says. */
static int real_cpus(void)
{
    unsigned long bits[128] = {0};
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(bits), bits);
    int highest = 0;

    for (long cpu = 0; cpu < bytes * 8; cpu++)
        if (bits[cpu / (8 * sizeof(long))] >> (cpu % (8 * sizeof(long))) & 1)
            highest = cpu;
    return highest + 1;
}

static cpu_set_t *folded(size_t size, const cpu_set_t *wanted)
{
    cpu_set_t *set = calloc(1, size);
    int real = real_cpus();

    for (size_t cpu = 0; set && cpu < size * 8; cpu++)
        if (CPU_ISSET_S(cpu, size, wanted))
            CPU_SET_S(cpu % real, size, set);
    return set;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *wanted)
{
    cpu_set_t *set = folded(size, wanted);
    long result = syscall(SYS_sched_setaffinity, pid, size, set);

    free(set);
    return result < 0 ? -1 : 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *wanted)
{
    static int (*real)(pthread_t, size_t, const cpu_set_t *);
    cpu_set_t *set = folded(size, wanted);
    int result;

    if (!real)
        real = (int (*)(pthread_t, size_t, const cpu_set_t *))dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    result = real(thread, size, set);
    free(set);
    return result;
}

long mbind(void *start, unsigned long length, int mode, const unsigned long *nodes, unsigned long maxnode, unsigned flags)
{
    (void)start, (void)length, (void)mode, (void)nodes, (void)maxnode, (void)flags;
    return 0;
}

long set_mempolicy(int mode, const unsigned long *nodes, unsigned long maxnode)
{
    (void)mode, (void)nodes, (void)maxnode;
    return 0;
}
