// The file server: a thread a connection as the paper has it, or a pool of threads (--threads n). PROTOCOL.md says what is spoken.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "net.hpp"

namespace {

struct Counters {
    std::atomic<uint64_t> connections{0}, created{0}, files{0}, bytes{0}, refused{0}, bad{0}, broken{0}, auth_errors{0};
};

struct Settings {
    sockaddr_in auth;
    int folder;
    double timeout_s;
    bool keep_auth;
};

Counters counters;
std::atomic<int> active{0};
std::atomic<bool> ending{false};

std::string stats() {
    char text[320];
    std::snprintf(text, sizeof text,
                  "{\"connections\": %lu, \"created\": %lu, \"files\": %lu, \"bytes\": %lu, \"refused\": %lu, \"bad\": %lu, "
                  "\"broken\": %lu, \"auth_errors\": %lu}\n",
                  counters.connections.load(), counters.created.load(), counters.files.load(), counters.bytes.load(),
                  counters.refused.load(), counters.bad.load(), counters.broken.load(), counters.auth_errors.load());
    return text;
}

enum class Again { kNo, kYes };

// How one thread asks the authentication server: anew for each request, or over a connection that it keeps.
class Authority {
   public:
    explicit Authority(const Settings& settings) : settings_(settings) {}

    // The answer's line without its end; nothing where the server cannot be asked.
    std::optional<std::string> ask(const std::string& line, Again again, const Deadline& deadline) {
        // A connection that was kept may have been closed meanwhile, or be out of step: then a new one.
        if (socket_ && wait_for(socket_.get(), POLLIN | POLLRDHUP, Deadline(0))) socket_.reset();
        bool kept = static_cast<bool>(socket_), some = false;
        auto found = once(line, deadline, some);
        // Closed right now: once more, where nothing of an answer came and asking twice changes nothing.
        if (!found && kept && !some && again == Again::kYes) found = once(line, deadline, some);
        if (!settings_.keep_auth) socket_.reset();
        return found;
    }

   private:
    std::optional<std::string> once(const std::string& line, const Deadline& deadline, bool& some) {
        if (!socket_) socket_ = connect_to(settings_.auth, deadline);
        std::string answer;
        if (socket_ && send_all(socket_.get(), line + "\n", deadline)) {
            LineReader reader(socket_.get());
            if (reader.next(answer, deadline) == Got::kLine) return answer;
            some = reader.has_some();
        }
        socket_.reset();
        return std::nullopt;
    }

    const Settings& settings_;
    Socket socket_;
};

// "upload_file" in the paper: here the time goes. Never a part of its caller, so that a profile names it.
[[gnu::noinline]] bool send_file(int to, int file, off_t size, double timeout_s) {
    off_t at = 0;
    while (at < size) {
        // Each piece has the time-out, so that a large file has as long as it needs.
        ssize_t sent = sendfile(to, file, &at, static_cast<size_t>(std::min<off_t>(size - at, 1 << 20)));
        if (sent > 0) {
            counters.bytes += static_cast<uint64_t>(sent);
        } else if (sent == 0) {
            return false;  // the file became shorter
        } else if (errno == EAGAIN) {
            if (!wait_for(to, POLLOUT, Deadline(timeout_s))) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

void answer_get(int fd, LineReader& reader, const Settings& settings) {
    Deadline deadline(settings.timeout_s);
    std::string name;
    if (!send_all(fd, "ok\n", deadline) || reader.next(name, deadline) != Got::kLine) {
        ++counters.broken;
        return;
    }
    struct stat found {};
    Socket file;
    // A plain name can hold no slash; a link is not followed.
    bool full = false;
    if (is_plain(name) && name[0] != '.') {
        file.reset(openat(settings.folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        full = !file && no_descriptor_left();
    }
    if (!file || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
        ++counters.refused;
        send_all(fd, full ? "error: no descriptor is left\n" : "error: no such file\n", deadline);
        return;
    }
    bool sent = send_all(fd, "file " + std::to_string(found.st_size) + "\n", deadline) &&
                send_file(fd, file.get(), found.st_size, settings.timeout_s);
    ++(sent ? counters.files : counters.broken);
}

void answer(Socket& socket, Authority& authority, const Settings& settings) {
    int fd = socket.get();
    LineReader reader(fd);
    Deadline deadline(settings.timeout_s);
    std::string line;
    Got got = reader.next(line, deadline);
    if (got == Got::kEnd || got == Got::kNothing) {
        ++counters.broken;
        return;
    }
    if (got == Got::kLine && line == "stats") {
        send_all(fd, stats(), deadline);
        return;
    }
    auto asked = got == Got::kLine ? parse_credentials(line) : std::nullopt;
    if (!asked || (asked->kind != "new" && asked->kind != "get")) {
        ++counters.bad;
        send_all(fd, "error: say new:user:password or get:user:password\n", deadline);
        return;
    }
    bool make = asked->kind == "new";
    auto said = authority.ask((make ? "new:" : "auth:") + asked->user + ":" + asked->password, make ? Again::kNo : Again::kYes, deadline);
    if (!said) {
        ++counters.auth_errors;
        send_all(fd, "error: the authentication server does not answer\n", deadline);
    } else if (*said != "ok") {
        ++(said->rfind("error: database", 0) == 0 ? counters.auth_errors : counters.refused);
        send_all(fd, *said + "\n", deadline);
    } else if (make) {
        ++counters.created;
        send_all(fd, "ok\n", deadline);
    } else {
        answer_get(fd, reader, settings);
    }
}

void serve(int fd, Authority& authority, const Settings& settings) {
    Socket socket(fd);
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    answer(socket, authority, settings);
    close_politely(socket);
}

// Connections that wait for a thread of the pool.
class Pool {
   public:
    Pool(int threads, const Settings& settings) {
        for (int number = 0; number < threads; ++number)
            threads_.emplace_back([this, &settings] {
                Authority authority(settings);
                while (auto fd = take()) serve(*fd, authority, settings);
            });
    }
    void put(int fd) {
        {
            std::lock_guard hold(lock_);
            waiting_.push_back(fd);
        }
        some_.notify_one();
    }
    void end() {
        {
            std::lock_guard hold(lock_);
            over_ = true;
        }
        some_.notify_all();
        for (auto& thread : threads_) thread.join();
        for (int fd : waiting_) close(fd);
    }

   private:
    std::optional<int> take() {
        std::unique_lock hold(lock_);
        some_.wait(hold, [this] { return over_ || !waiting_.empty(); });
        if (over_) return std::nullopt;
        int fd = waiting_.front();
        waiting_.pop_front();
        return fd;
    }

    std::mutex lock_;
    std::condition_variable some_;
    std::deque<int> waiting_;
    bool over_ = false;
    std::vector<std::thread> threads_;
};

// Connections that have said nothing yet: a thread of the pool is only for who has. Who stays silent is closed.
class Waiting {
   public:
    explicit Waiting(double timeout_s) : epoll_(epoll_create1(EPOLL_CLOEXEC)), timeout_(timeout_s) {}

    void add(int fd) {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLRDHUP;
        event.data.fd = fd;
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
            close(fd);
            return;
        }
        since_[fd] = Clock::now();
        order_.push_back({fd, since_[fd]});
    }

    // Hands on who has said something, and lets the silent go; to be called a few times a second.
    void look(Pool& pool) {
        epoll_event events[256];
        int found = epoll_wait(epoll_.get(), events, 256, 0);
        for (int at = 0; at < found; ++at) {
            int fd = events[at].data.fd;
            forget(fd);
            pool.put(fd);
        }
        while (!order_.empty() && Clock::now() - order_.front().second > timeout_) {
            auto [fd, when] = order_.front();
            order_.pop_front();
            auto known = since_.find(fd);
            if (known == since_.end() || known->second != when) continue;  // it spoke, and its number may be another's by now
            forget(fd);
            ++counters.broken;
            close(fd);
        }
    }

    int fd() const { return epoll_.get(); }
    ~Waiting() {
        for (auto& [fd, when] : since_) close(fd);
    }

   private:
    void forget(int fd) {
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
        since_.erase(fd);
    }

    Socket epoll_;
    std::chrono::duration<double> timeout_;
    std::unordered_map<int, Clock::time_point> since_;
    std::deque<std::pair<int, Clock::time_point>> order_;
};

void thread_for(int fd, const Settings& settings) {
    ++active;
    try {
        std::thread([fd, &settings] {
            {
                Authority authority(settings);
                serve(fd, authority, settings);
            }
            --active;
        }).detach();
    } catch (const std::system_error&) {
        --active;
        Socket socket(fd);
        ++counters.refused;
        send_all(fd, "error: no thread is left\n", Deadline(0.1));
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options(argc, argv,
                    {{"host", "127.0.0.1"}, {"port", "10000"}, {"auth-host", "127.0.0.1"}, {"auth-port", "10001"}, {"files", "uploads"}, {"threads", "0"},
                     {"keep-auth", "0"}, {"timeout", "20"}, {"backlog", "4096"}});
    Socket folder(open(options.text("files").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) die(options.text("files") + " is no folder that can be read");
    const Settings settings{address_of(options.text("auth-host"), options.count("auth-port")), folder.get(), options.number("timeout"), options.count("keep-auth") != 0};
    signal(SIGPIPE, SIG_IGN);
    struct sigaction stop {};
    stop.sa_handler = [](int) { ending = true; };
    sigaction(SIGTERM, &stop, nullptr);
    sigaction(SIGINT, &stop, nullptr);
    Socket listener = listen_on(options.text("host"), options.count("port"), options.count("backlog"));
    fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    std::optional<Pool> pool;
    if (options.count("threads") > 0) pool.emplace(options.count("threads"), settings);
    Waiting waiting(settings.timeout_s);
    pollfd watched[] = {{listener.get(), POLLIN, 0}, {waiting.fd(), POLLIN, 0}};
    while (!ending) {
        // A signal between the test above and poll is noticed after this time.
        poll(watched, 2, 200);
        if (pool) waiting.look(*pool);
        if (!(watched[0].revents & POLLIN)) continue;
        int fd = accept_from(listener.get());
        if (fd < 0) continue;
        ++counters.connections;
        if (pool)
            waiting.add(fd);
        else
            thread_for(fd, settings);
    }
    if (pool) pool->end();
    for (int turn = 0; turn < 200 && active > 0; ++turn) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (active > 0) _exit(0);
    return 0;
}
