/* The control for pacing: a bare epoll_pwait2 loop that wakes at a rate, does no I/O and reports how late it woke.
 *
 *   pacer RATE SECONDS      prints one JSON line with the wake-up stamps (ns, from the first deadline) */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "pacer RATE SECONDS\n"); return 2; }
    double gap_ns = 1e9 / atof(argv[1]);
    long count = (long)(atof(argv[2]) * atof(argv[1]));
    int64_t *woke = malloc(count * sizeof *woke);
    int loop = epoll_create1(0);
    struct epoll_event event;
    prctl(PR_SET_TIMERSLACK, 1);
    int64_t start = now_ns() + 1000000;
    for (long i = 0; i < count; i++) {
        int64_t due = start + (int64_t)(i * gap_ns), left;
        while ((left = due - now_ns()) > 0) {
            struct timespec wait = {left / 1000000000, left % 1000000000};
            syscall(SYS_epoll_pwait2, loop, &event, 1, &wait, NULL, 0);
        }
        woke[i] = now_ns() - start;
    }
    printf("{\"woke_ns\": [");
    for (long i = 0; i < count; i++) printf(i ? ",%ld" : "%ld", (long)woke[i]);
    printf("]}\n");
    return 0;
}
