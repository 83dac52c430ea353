/* The floor by io_uring (Linux 6.1): a multishot receive into a ring of buffers on each connection, the sends of a pass given to
 * the kernel together with the wait, in one io_uring_enter. Raw system calls. Keep-alive only.
 * It ends with 3 where this kernel, or its owner, does not allow that; with 0 connections that is all it finds out. */
#include "floor.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { ENTRIES = 512, COMPLETIONS = 2048, BUFFERS = 64, BUFFER = 1 << 14, SEND = 1 << 30, REFUSED = 3 };

static int ring;
static unsigned own; /* the ring's number among the task's registered rings */
static unsigned *sq_head, *sq_tail, *sq_array, sq_mask, made;
static unsigned *cq_head, *cq_tail, cq_mask;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static struct io_uring_buf_ring *free_buffers;
static char *memory;
static uint16_t given;

static void refused(const char *what) { perror(what); exit(REFUSED); }
static long tell_ring(unsigned what, void *with, unsigned count) { return syscall(__NR_io_uring_register, ring, what, with, count); }

static void *map(size_t size, int fd, off_t at) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *here = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, at);
    if (here == MAP_FAILED) die("mmap");
    return here;
}

/* The next entry, with what all have in common; at most two a connection are made in a pass. */
static struct io_uring_sqe *entry(struct connection *c, int operation, unsigned flags, uint64_t mark) {
    unsigned at = made++ & sq_mask;
    sq_array[at] = at;
    sqes[at] = (struct io_uring_sqe){.opcode = operation, .fd = (int)(c - all), .flags = IOSQE_FIXED_FILE | flags, .user_data = (c - all) | mark};
    return &sqes[at];
}

static void listen_on(struct connection *c) {
    entry(c, IORING_OP_RECV, IOSQE_BUFFER_SELECT, 0)->ioprio = IORING_RECV_MULTISHOT | IORING_RECVSEND_POLL_FIRST;
}

static void begin(struct connection *c) {
    c->held = 0, c->left = -1;
    struct io_uring_sqe *sqe = entry(c, IORING_OP_SEND, IOSQE_CQE_SKIP_SUCCESS, SEND);
    sqe->addr = (uintptr_t)request, sqe->len = request_length;
    sqe->msg_flags = MSG_NOSIGNAL | MSG_WAITALL; /* a send that is not whole becomes a completion */
}

static void open_one(struct connection *c) {
    c->fd = dial(0);
    struct io_uring_files_update update = {.offset = c - all, .fds = (uintptr_t)&c->fd};
    if (tell_ring(IORING_REGISTER_FILES_UPDATE, &update, 1) < 0) die("files");
    listen_on(c);
    begin(c);
}

static void give_back(unsigned id) {
    struct io_uring_buf *buffer = &free_buffers->bufs[given++ & (BUFFERS - 1)];
    buffer->addr = (uintptr_t)(memory + (size_t)id * BUFFER), buffer->len = BUFFER, buffer->bid = id;
}

static void completed(const struct io_uring_cqe *cqe) {
    struct connection *c = &all[cqe->user_data & (SEND - 1)];
    if (cqe->user_data & SEND) { bad++; return; }
    int whole = 0;
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        whole = take(c, memory + (size_t)id * BUFFER, cqe->res);
        give_back(id);
    }
    if (whole) done++;
    if (over) return;
    if (cqe->res <= 0 && cqe->res != -ENOBUFS) {
        bad += c->left != 0;
        close(c->fd);
        open_one(c);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) listen_on(c);
    if (whole) begin(c);
}

static void set_up(void) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                .cq_entries = COMPLETIONS};
    ring = syscall(__NR_io_uring_setup, ENTRIES, &p);
    if (ring < 0) refused("io_uring_setup");
    size_t sq_size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = map(sq_size > cq_size ? sq_size : cq_size, ring, IORING_OFF_SQ_RING);
    sqes = map(p.sq_entries * sizeof *sqes, ring, IORING_OFF_SQES);
    sq_head = (unsigned *)(rings + p.sq_off.head), sq_tail = (unsigned *)(rings + p.sq_off.tail);
    sq_array = (unsigned *)(rings + p.sq_off.array), sq_mask = p.sq_entries - 1;
    cq_head = (unsigned *)(rings + p.cq_off.head), cq_tail = (unsigned *)(rings + p.cq_off.tail);
    cqes = (struct io_uring_cqe *)(rings + p.cq_off.cqes), cq_mask = p.cq_entries - 1;
    struct io_uring_rsrc_update itself = {.offset = -1U, .data = ring};
    if (tell_ring(IORING_REGISTER_RING_FDS, &itself, 1) != 1) refused("ring");
    own = itself.offset;
    int none[ENTRIES];
    memset(none, -1, sizeof none);
    if (tell_ring(IORING_REGISTER_FILES, none, ENTRIES)) refused("files");
    free_buffers = map(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
    memory = map((size_t)BUFFERS * BUFFER, -1, 0);
    struct io_uring_buf_reg buffers = {.ring_addr = (uintptr_t)free_buffers, .ring_entries = BUFFERS};
    if (tell_ring(IORING_REGISTER_PBUF_RING, &buffers, 1)) refused("buffers");
    for (unsigned id = 0; id < BUFFERS; id++) give_back(id);
}

static void pass(void) {
    __atomic_store_n(&free_buffers->tail, given, __ATOMIC_RELEASE);
    __atomic_store_n(sq_tail, made, __ATOMIC_RELEASE);
    unsigned submitted = made - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE);
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING;
    if (syscall(__NR_io_uring_enter, own, submitted, 1, flags, NULL, 0) < 0 && errno != EINTR) die("io_uring_enter");
    unsigned head = *cq_head, tail = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
    for (; head != tail; head++) completed(&cqes[head & cq_mask]);
    __atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
    prepare(argc, argv);
    if (fresh || connections * 4 > ENTRIES) { fprintf(stderr, "keep-alive and at most %d connections\n", ENTRIES / 4); return 2; }
    set_up();
    if (!connections) return 0;
    for (int i = 0; i < connections; i++) open_one(&all[i]);
    while (!over) pass();
    tell();
    return 0;
}
