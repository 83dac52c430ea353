/* A bare client of one thread that keeps N connections busy and records nothing but totals. It works by epoll, as svload's engine
 * does: edge-triggered, one read and one write per request.
 *
 *   floor PORT PATH CONNECTIONS SECONDS keep-alive|new HEADER
 *
 * 127.0.0.1 only. It checks each answer's status and length, so that what it leaves out is recording alone: no stamp,
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
#include <sys/epoll.h>
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

/* Reads the command line and sets the alarm. */
static void prepare(int argc, char **argv) {
    if (argc != 7) { fprintf(stderr, "floor PORT PATH CONNECTIONS SECONDS keep-alive|new HEADER\n"); exit(2); }
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

enum { BUFFER = 1 << 18, EVENTS = 256 };
static char buffer[BUFFER];
static int loop;

static void begin(struct connection *c) {
    c->held = 0, c->left = -1;
    if (send(c->fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) bad++;
}

static void open_one(struct connection *c) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) die("connect");
    connects++;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl");
    /* On loopback the handshake is over when connect returns, so the first write need not wait for an event. */
    begin(c);
}

static void readable(struct connection *c) {
    for (;;) {
        ssize_t count = recv(c->fd, buffer, BUFFER, 0);
        if (count < 0) return;
        int whole = count > 0 && take(c, buffer, count);
        if (count == 0 && c->left != 0) bad++;
        if (!whole && count == BUFFER) continue;
        if (!whole && count > 0) return;
        done++;
        if (over) return;
        if (!fresh && count > 0) { begin(c); return; }
        close(c->fd);
        open_one(c);
        return;
    }
}

int main(int argc, char **argv) {
    prepare(argc, argv);
    loop = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < connections; i++) open_one(&all[i]);
    struct epoll_event events[EVENTS];
    while (!over) {
        int count = epoll_wait(loop, events, EVENTS, -1);
        for (int i = 0; i < count; i++) readable(events[i].data.ptr);
    }
    printf("{\"requests\": %lu, \"bad\": %lu, \"body_bytes\": %lu, \"connections\": %lu}\n", done, bad, body_bytes, connects);
    return 0;
}
