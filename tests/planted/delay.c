/* A planted delay: with this preloaded, the engine (PLANTED_DELAY=engine) or the servers (PLANTED_DELAY=server) act 50 ms after
   each wait. `make test-timing PLANTED=engine` shows that timing tests detect it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

static int planted;
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static int (*real_sleep)(clockid_t, int, const struct timespec *, struct timespec *);

static int holds(const char *line, size_t length, const char *word) {
    return memmem(line, length, word, strlen(word)) != NULL;
}

#define REAL(held, name) ((__typeof__(held))(held ? (void *)held : resolve((void **)&held, name)))
static void *resolve(void **held, const char *name) { return *held = dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void choose(void) {
    static char line[65536];
    const char *where = getenv("PLANTED_DELAY");
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file ? fread(line, 1, sizeof line, file) : 0;
    if (file)
        fclose(file);
    if (!where)
        return;
    if (!strcmp(where, "engine"))
        planted = holds(line, length, "svload.drive.generator");
    else
        planted = holds(line, length, "nginx") || holds(line, length, "varnishd") ||
                  holds(line, length, "memcached") || holds(line, length, "haproxy") || holds(line, length, "redis-server") ||
                  holds(line, length, "mariadbd") || holds(line, length, "swift-");
}

static void act_late(long events) {
    struct timespec late = {0, 50 * 1000 * 1000};
    if (planted && events >= 0)
        REAL(real_sleep, "clock_nanosleep")(CLOCK_MONOTONIC, 0, &late, NULL);
}

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout_ms) {
    int found = REAL(real_epoll_wait, "epoll_wait")(queue, events, most, timeout_ms);
    act_late(found);
    return found;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    int found = REAL(real_poll, "poll")(fds, count, timeout_ms);
    act_late(found);
    return found;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left) {
    int found = REAL(real_sleep, "clock_nanosleep")(clock, flags, asked, left);
    act_late(found);
    return found;
}

/* Allocators call it before anything can be looked up. */
static long straight(long number, long a, long b, long c, long d, long e, long f) {
    long found;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(found)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return found;
}

long syscall(long number, ...) {
    va_list given;
    va_start(given, number);
    long a = va_arg(given, long), b = va_arg(given, long), c = va_arg(given, long);
    long d = va_arg(given, long), e = va_arg(given, long), f = va_arg(given, long);
    va_end(given);
    long found = straight(number, a, b, c, d, e, f);
    if (found < 0 && found > -4096) {
        errno = (int)-found;
        found = -1;
    }
    if (number == 441 /* epoll_pwait2 */)
        act_late(found);
    return found;
}
