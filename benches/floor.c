/* The floor by epoll, as svload's engine works: edge-triggered, a read and a write a request. */
#include "floor.h"

#include <sys/epoll.h>

enum { BUFFER = 1 << 18, EVENTS = 256 };
static char buffer[BUFFER];
static int loop;

static void begin(struct connection *c) {
    c->held = 0, c->left = -1;
    if (send(c->fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) bad++;
}

static void open_one(struct connection *c) {
    c->fd = dial(SOCK_NONBLOCK);
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
    tell();
    return 0;
}
