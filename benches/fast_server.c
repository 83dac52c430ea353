/* A very fast server: one thread, one answer of 1 KiB made beforehand, nothing else.
 *
 *   fast_server PORT COUNT_FILE     adds each request to the 8 bytes of COUNT_FILE; ends by a signal */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY = 1024, EVENTS = 256 };
static char tail[4096][3]; /* by descriptor: the last three bytes read, where a blank line may begin */

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "fast_server PORT COUNT_FILE\n"); return 2; }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ftruncate(file, 8)) { perror(argv[2]); return 1; }
    volatile uint64_t *requests = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char answer[2048], data[65536 + 3];
    int length = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nServer: bare\r\nContent-Type: application/octet-stream\r\n"
                                                 "Connection: keep-alive\r\nContent-Length: %d\r\n\r\n", BODY);
    memset(answer + length, 'x', BODY);
    length += BODY;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), loop = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) { perror("listen"); return 1; }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS];
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(loop, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (fd < 0) continue;
                if (fd >= 4096) { close(fd); continue; }
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                memset(tail[fd], 0, 3);
                event = (struct epoll_event){.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.fd = fd};
                epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
                continue;
            }
            memcpy(data, tail[fd], 3);
            ssize_t got = recv(fd, data + 3, sizeof data - 3, 0);
            if (got == 0 || (got < 0 && !(events[i].events & EPOLLIN))) { close(fd); continue; }
            if (got < 0) continue;
            memcpy(tail[fd], data + got, 3);
            char *at = data, *end = data + 3 + got;
            while ((at = memmem(at, end - at, "\r\n\r\n", 4))) {
                at += 4, ++*requests;
                memset(tail[fd], 0, 3);
                if (send(fd, answer, length, MSG_NOSIGNAL) < 0) break;
            }
        }
    }
}
