/* A model-server double for the benchmark of the sender alone: one process, epoll, one send for each chunk.
 *
 * Usage: double CHUNKS FIRST_US BETWEEN_US LOG [CPU]
 * It prints its port, answers every POST that has a Content-Length, and ends when stdin is closed. CHUNKS 0: one answer
 * with its length; else a stream of so many tokens, the first after FIRST_US, the others BETWEEN_US apart (both 0: as
 * fast as it can). LOG gets three 64-bit numbers a request: arrived, first and last token written, CLOCK_MONOTONIC ns.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 65536, HELD = 16384, BATCH = 512 };

typedef struct {
    char *in;
    int in_len;
    char *out; /* what the socket did not take */
    int out_len, out_cap;
    int sent; /* tokens written, -1: idle */
    int64_t arrived, first, due;
} Connection;

typedef struct {
    int64_t due;
    int fd;
    int64_t arrived; /* which request: a closed and reused descriptor is told apart */
} Timer;

static Connection connections[MOST];
static Timer *heap;
static int heap_len, heap_cap, timer_fd, epoll_fd;
static int chunks, first_us, between_us;
static FILE *log_file;
static char head[256], chunk[600], tail[600], answer[1024];
static int head_len, chunk_len, tail_len, answer_len;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void heap_push(Timer timer) {
    if (heap_len == heap_cap) heap = realloc(heap, sizeof(Timer) * (heap_cap = heap_cap ? heap_cap * 2 : 1024));
    int at = heap_len++;
    while (at && heap[(at - 1) / 2].due > timer.due) heap[at] = heap[(at - 1) / 2], at = (at - 1) / 2;
    heap[at] = timer;
}

static Timer heap_pop(void) {
    Timer top = heap[0], last = heap[--heap_len];
    int at = 0, below;
    while ((below = 2 * at + 1) < heap_len) {
        if (below + 1 < heap_len && heap[below + 1].due < heap[below].due) below++;
        if (heap[below].due >= last.due) break;
        heap[at] = heap[below], at = below;
    }
    heap[at] = last;
    return top;
}

static void arm(void) {
    struct itimerspec when = {0};
    int64_t due = heap_len ? heap[0].due : 0;
    when.it_value.tv_sec = due / 1000000000LL;
    when.it_value.tv_nsec = due % 1000000000LL;
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drop(int fd) {
    Connection *one = &connections[fd];
    free(one->in), free(one->out);
    memset(one, 0, sizeof *one);
    close(fd);
}

static void watch(int fd, int writes) {
    struct epoll_event event = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.fd = fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static void put(int fd, const char *data, int len) {
    Connection *one = &connections[fd];
    int done = 0;
    if (!one->out_len) {
        done = send(fd, data, len, MSG_NOSIGNAL);
        if (done < 0) done = 0;
    }
    if (done == len) return;
    if (one->out_len + len - done > one->out_cap) {
        one->out_cap = (one->out_len + len - done) * 2;
        one->out = realloc(one->out, one->out_cap);
    }
    memcpy(one->out + one->out_len, data + done, len - done);
    if (!one->out_len) watch(fd, 1);
    one->out_len += len - done;
}

static void take(int fd);

static void finish(int fd) {
    Connection *one = &connections[fd];
    int64_t row[3] = {one->arrived, one->first, now_ns()};
    if (log_file) fwrite(row, sizeof row, 1, log_file);
    one->sent = -1;
    if (one->in_len) take(fd);
}

static void token(int fd) {
    Connection *one = &connections[fd];
    char buffer[1024];
    int len = 0;
    if (!one->sent) {
        one->first = now_ns();
        memcpy(buffer, head, head_len), len = head_len;
    }
    memcpy(buffer + len, chunk, chunk_len);
    put(fd, buffer, len + chunk_len);
    if (++one->sent == chunks) {
        put(fd, tail, tail_len);
        finish(fd);
    }
}

static void begin(int fd) {
    Connection *one = &connections[fd];
    one->arrived = now_ns();
    one->sent = 0;
    if (!chunks && !first_us) {
        one->first = one->arrived;
        put(fd, answer, answer_len);
        finish(fd);
    } else if (!first_us && !between_us) {
        int64_t arrived = one->arrived;
        while (one->sent >= 0 && one->sent < chunks && one->arrived == arrived) token(fd);
    } else {
        one->due = one->arrived + first_us * 1000LL;
        heap_push((Timer){one->due, fd, one->arrived});
        if (heap[0].fd == fd) arm();
    }
}

static void take(int fd) {
    Connection *one = &connections[fd];
    char *end = memmem(one->in, one->in_len, "\r\n\r\n", 4);
    if (!end || one->sent >= 0) return;
    int body = 0;
    for (char *line = one->in; line < end; line++)
        if (line[0] == '\n' && !strncasecmp(line + 1, "content-length:", 15)) body = atoi(line + 16);
    int whole = end + 4 - one->in + body;
    if (one->in_len < whole) return;
    memmove(one->in, one->in + whole, one->in_len - whole);
    one->in_len -= whole;
    begin(fd);
}

static void ring(void) {
    uint64_t times;
    if (read(timer_fd, &times, 8) != 8) return;
    int64_t now = now_ns();
    while (heap_len && heap[0].due <= now) {
        Timer timer = heap_pop();
        Connection *one = &connections[timer.fd];
        if (!one->in || one->arrived != timer.arrived || one->sent < 0) continue;
        if (one->sent + 1 < chunks) heap_push((Timer){timer.due + between_us * 1000LL, timer.fd, timer.arrived});
        token(timer.fd);
        now = now_ns();
    }
    arm();
}

static void texts(void) {
    const char *base = "\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                       "\"created\":1764500000,\"model\":\"double\"";
    char event[512];
    head_len = sprintf(head, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                             "transfer-encoding: chunked\r\n\r\n");
    int len = sprintf(event, "data: {%s,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,"
                             "\"finish_reason\":null}]}\n\n", base);
    chunk_len = sprintf(chunk, "%x\r\n%s\r\n", len, event);
    len = sprintf(event, "data: {%s,\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],"
                         "\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", base, chunks);
    tail_len = sprintf(tail, "%x\r\n%s\r\n0\r\n\r\n", len, event);
    char body[768];
    len = sprintf(body, "{%s,\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},"
                        "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":32}}",
                  base, "word word word word word word word word word word word word word word word word ");
    answer_len = sprintf(answer, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                         len, body);
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    chunks = atoi(argv[1]), first_us = atoi(argv[2]), between_us = atoi(argv[3]);
    log_file = fopen(argv[4], "wb");
    if (argc > 5) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(atoi(argv[5]), &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    texts();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    bind(listener, (void *)&address, size);
    listen(listener, 4096);
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int fixed[] = {listener, timer_fd, 0};
    for (int at = 0; at < 3; at++)
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fixed[at], &(struct epoll_event){.events = EPOLLIN, .data.fd = fixed[at]});
    struct epoll_event events[BATCH];
    for (;;) {
        int ready = epoll_wait(epoll_fd, events, BATCH, -1);
        for (int at = 0; at < ready; at++) {
            int fd = events[at].data.fd;
            if (fd == timer_fd) {
                ring();
            } else if (fd == 0) {
                char byte;
                if (read(0, &byte, 1) > 0) continue;
                if (log_file) fclose(log_file);
                return 0;
            } else if (fd == listener) {
                int new_fd;
                while ((new_fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (new_fd >= MOST) {
                        close(new_fd);
                        continue;
                    }
                    setsockopt(new_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                    connections[new_fd] = (Connection){.in = malloc(HELD), .sent = -1};
                    struct epoll_event event = {.events = EPOLLIN, .data.fd = new_fd};
                    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, new_fd, &event);
                }
            } else {
                Connection *one = &connections[fd];
                if (!one->in) continue;
                if (events[at].events & EPOLLOUT && one->out_len) {
                    int done = send(fd, one->out, one->out_len, MSG_NOSIGNAL);
                    if (done > 0) {
                        memmove(one->out, one->out + done, one->out_len - done);
                        one->out_len -= done;
                    }
                    if (!one->out_len) watch(fd, 0);
                }
                if (!(events[at].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
                int got = recv(fd, one->in + one->in_len, HELD - one->in_len, 0);
                if (got <= 0) {
                    if (got == 0 || errno != EAGAIN) drop(fd);
                    continue;
                }
                one->in_len += got;
                take(fd);
            }
        }
    }
}
