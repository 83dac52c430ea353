/* What the floors share: a bare client of one thread that keeps N connections busy and records nothing but totals.
 *
 *   FLOOR PORT PATH CONNECTIONS SECONDS keep-alive|new HEADER
 *
 * 127.0.0.1 only. A floor checks each answer's status and length, so that what it leaves out is recording alone: no stamp,
 * no histogram, no header beyond Content-Length, no time-out. It prints one JSON line. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEAD = 4096 };
struct connection { int fd; int held; int64_t left; char head[HEAD]; };

static struct sockaddr_in server;
static char request[4096];
static size_t request_length;
static int fresh, connections;
static struct connection *all;
static volatile sig_atomic_t over;
static uint64_t done, bad, body_bytes, connects;

static void at_the_end(int number) { (void)number; over = 1; }
static void die(const char *what) { perror(what); exit(1); }

/* The end of the head in c->head, or 0 if more must come. */
static int head_end(struct connection *c) {
    char *end = memmem(c->head, c->held, "\r\n\r\n", 4);
    if (!end) return 0;
    char *length = memmem(c->head, end - c->head, "\r\nContent-Length: ", 18);
    if (memcmp(c->head + 9, "200", 3) || !length) { bad++; c->left = 0; return (int)(end - c->head) + 4; }
    c->left = strtoll(length + 18, NULL, 10);
    return (int)(end - c->head) + 4;
}

/* Takes `count` bytes; 1 if the answer is whole. */
static int take(struct connection *c, const char *data, ssize_t count) {
    if (c->left < 0) {
        int before = c->held, room = HEAD - before;
        memcpy(c->head + before, data, count < room ? count : room);
        c->held += count < room ? count : room;
        int end = head_end(c);
        if (!end) return 0;
        data += end - before, count -= end - before;
    }
    body_bytes += count, c->left -= count;
    return c->left <= 0;
}

/* A socket that is connected, or will be: `flags` SOCK_NONBLOCK or 0. */
static int dial(int flags) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) die("connect");
    connects++;
    return fd;
}

/* Reads the command line and sets the alarm. */
static void prepare(int argc, char **argv) {
    if (argc != 7) { fprintf(stderr, "FLOOR PORT PATH CONNECTIONS SECONDS keep-alive|new HEADER\n"); exit(2); }
    connections = atoi(argv[3]);
    fresh = !strcmp(argv[5], "new");
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    request_length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n%s%s\r\n", argv[2],
                              argv[1], *argv[6] ? argv[6] : "", *argv[6] ? "\r\n" : "");
    all = calloc(connections, sizeof *all);
    signal(SIGALRM, at_the_end);
    double seconds = atof(argv[4]);
    struct itimerval until = {.it_value = {(time_t)seconds, (suseconds_t)((seconds - (time_t)seconds) * 1e6)}};
    setitimer(ITIMER_REAL, &until, NULL);
}

static void tell(void) {
    printf("{\"requests\": %lu, \"bad\": %lu, \"body_bytes\": %lu, \"connections\": %lu}\n", done, bad, body_bytes, connects);
}
