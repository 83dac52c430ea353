// Lines over TCP with a bound on everything: length, time, and what a peer may do to us.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>

constexpr size_t kLongestLine = 256;

using Clock = std::chrono::steady_clock;

// A descriptor that is closed with its owner.
class Socket {
   public:
    explicit Socket(int fd = -1) : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(other.release()) {}
    Socket& operator=(Socket&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~Socket() { reset(); }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() {
        int fd = fd_;
        fd_ = -1;
        return fd;
    }
    void reset(int fd = -1) {
        if (fd_ >= 0) close(fd_);
        fd_ = fd;
    }

   private:
    int fd_;
};

// Until when something may take; every wait below has one.
class Deadline {
   public:
    explicit Deadline(double seconds)
        : end_(Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6))) {}
    int left_ms() const {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return left > 0 ? static_cast<int>(left) + 1 : 0;
    }

   private:
    Clock::time_point end_;
};

inline bool wait_for(int fd, short events, const Deadline& deadline) {
    pollfd one{fd, events, 0};
    for (;;) {
        int found = poll(&one, 1, deadline.left_ms());
        if (found > 0) return true;
        if (found == 0 || errno != EINTR) return false;
    }
}

// False where the peer went away or did not read in time.
inline bool send_all(int fd, std::string_view text, const Deadline& deadline) {
    while (!text.empty()) {
        ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            text.remove_prefix(static_cast<size_t>(sent));
        } else if (sent < 0 && errno == EINTR) {
            continue;
        } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!wait_for(fd, POLLOUT, deadline)) return false;
        } else {
            return false;
        }
    }
    return true;
}

enum class Got { kLine, kEnd, kTooLong, kNothing };

// Reads lines; what came after one is kept for the next. A line ends with LF, a CR before it is dropped.
class LineReader {
   public:
    explicit LineReader(int fd) : fd_(fd) {}

    // kNothing: the peer sent no whole line in time, or the connection broke.
    Got next(std::string& line, const Deadline& deadline) {
        for (;;) {
            if (auto found = take(line)) return *found;
            if (!wait_for(fd_, POLLIN, deadline)) return Got::kNothing;
            if (auto ended = fill()) return *ended;
        }
    }

    // One line of what has come already, or nothing yet.
    std::optional<Got> take(std::string& line) {
        size_t end = kept_.find('\n');
        if (end == std::string::npos) {
            if (kept_.size() > kLongestLine) return Got::kTooLong;
            return std::nullopt;
        }
        if (end > kLongestLine) return Got::kTooLong;
        line = kept_.substr(0, end);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        kept_.erase(0, end + 1);
        return Got::kLine;
    }

    // Reads what is there; a result only where the connection is over.
    std::optional<Got> fill() {
        char buffer[512];
        ssize_t read = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
        if (read > 0) {
            kept_.append(buffer, static_cast<size_t>(read));
            return std::nullopt;
        }
        if (read == 0) return Got::kEnd;
        if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
        return Got::kNothing;
    }

    // Whether anything has come that is no whole line yet.
    bool has_some() const { return !kept_.empty(); }

   private:
    int fd_;
    std::string kept_;
};

// `kind:user:password`, each part of at most 64 plain characters; anything else is nothing.
struct Credentials {
    std::string kind, user, password;
};

inline bool is_plain(std::string_view text) {
    if (text.empty() || text.size() > 64) return false;
    for (unsigned char c : text) {
        bool fine = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                    c == '_' || c == '-' || c == '@';
        if (!fine) return false;
    }
    return true;
}

inline std::optional<Credentials> parse_credentials(const std::string& line) {
    size_t first = line.find(':');
    if (first == std::string::npos) return std::nullopt;
    size_t second = line.find(':', first + 1);
    if (second == std::string::npos) return std::nullopt;
    Credentials found{line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)};
    if (!is_plain(found.user) || !is_plain(found.password)) return std::nullopt;
    return found;
}

[[noreturn]] inline void die(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(2);
}

// Dies where the text is no IPv4 address.
inline sockaddr_in address_of(const std::string& host, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) die(host + " is no IPv4 address");
    return address;
}

inline Socket listen_on(const std::string& host, int port, int backlog) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int yes = 1;
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address = address_of(host, port);
    if (bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        die(host + ":" + std::to_string(port) + " cannot be bound: " + std::strerror(errno));
    if (listen(made.get(), backlog) != 0) die(std::string("cannot listen: ") + std::strerror(errno));
    return made;
}

// Nothing where it does not stand by the deadline.
inline Socket connect_to(const sockaddr_in& address, const Deadline& deadline) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made) return Socket();
    if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno != EINPROGRESS || !wait_for(made.get(), POLLOUT, deadline)) return Socket();
        int error = 0;
        socklen_t length = sizeof error;
        if (getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return Socket();
    }
    int yes = 1;
    setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return made;
}

inline bool no_descriptor_left() { return errno == EMFILE || errno == ENFILE; }

// A new connection, or -1. Without a descriptor for it the listener stays ready: a moment passes, so that nobody spins.
inline int accept_from(int listener) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && no_descriptor_left()) poll(nullptr, 0, 5);
    return fd;
}

// Ends a connection so that the peer reads all that was sent, whatever it sent last; waits for it half a second at most.
inline void close_politely(Socket& socket) {
    shutdown(socket.get(), SHUT_WR);
    Deadline deadline(0.5);
    char rest[512];
    for (int reads = 0; reads < 64 && wait_for(socket.get(), POLLIN, deadline); ++reads)
        if (recv(socket.get(), rest, sizeof rest, MSG_DONTWAIT) <= 0) break;
    socket.reset();
}

// Options `--name value`; every one has a default.
class Options {
   public:
    Options(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
        for (int at = 1; at < argc; at += 2) {
            std::string name = argv[at];
            if (name.rfind("--", 0) != 0 || !values_.count(name.substr(2)) || at + 1 == argc) {
                std::string known;
                for (auto& [key, value] : values_) known += " --" + key + " (" + value + ")";
                die("unknown option or one without a value: " + name + "; known are" + known);
            }
            values_[name.substr(2)] = argv[at + 1];
        }
    }
    const std::string& text(const std::string& name) const { return values_.at(name); }
    double number(const std::string& name) const {
        const std::string& text = values_.at(name);
        char* end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end || value < 0 || value > 1e6) die("--" + name + " takes a number from 0 to 1000000, not " + text);
        return value;
    }
    int count(const std::string& name) const { return static_cast<int>(number(name)); }

   private:
    std::map<std::string, std::string> values_;
};

// Counters in memory that forked processes share.
template <class Counters>
Counters* shared_counters() {
    void* memory = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory for the counters");
    return new (memory) Counters();
}
