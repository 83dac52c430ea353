// The authentication server: a process a connection and a database connection a request, as the paper has it; or --workers n
// processes that serve many connections; with --keep-db 1 a process keeps its database connection. PROTOCOL.md says what is spoken.

#include <mysql.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstddef>
#include <memory>
#include <vector>

#include "net.hpp"

namespace {

struct Counters {
    std::atomic<uint64_t> connections{0}, forks{0}, asked{0}, created{0}, accepted{0}, refused{0}, bad{0}, database_connections{0},
        database_errors{0}, fork_errors{0};
};

struct Settings {
    std::string socket, user, password, database;
    unsigned port;  // 0: by the socket
    double timeout_s;
    bool keep_db;
};

Counters* counters;
std::atomic<bool> ending{false};
constexpr unsigned kDuplicate = 1062, kGone = 2006, kLost = 2013;

std::string stats() {
    char text[400];
    std::snprintf(text, sizeof text,
                  "{\"connections\": %lu, \"forks\": %lu, \"asked\": %lu, \"created\": %lu, \"accepted\": %lu, \"refused\": %lu, "
                  "\"bad\": %lu, \"database_connections\": %lu, \"database_errors\": %lu, \"fork_errors\": %lu}\n",
                  counters->connections.load(), counters->forks.load(), counters->asked.load(), counters->created.load(),
                  counters->accepted.load(), counters->refused.load(), counters->bad.load(),
                  counters->database_connections.load(), counters->database_errors.load(), counters->fork_errors.load());
    return text;
}

class Users {
   public:
    explicit Users(const Settings& settings) : settings_(settings) {}

    // "ok", or "error: " and why. The password is hashed by the database, with the user as salt.
    std::string make(const Credentials& who) {
        auto done = run("INSERT INTO users (name, password) VALUES (?, SHA2(CONCAT(?, ':', ?), 256))", {who.user, who.user, who.password}, Again::kNo);
        if (done == Done::kDuplicate) {
            ++counters->refused;
            return "error: this user exists";
        }
        if (done == Done::kFailed) return failed();
        ++counters->created;
        return "ok";
    }

    std::string check(const Credentials& who) {
        auto done = run("SELECT 1 FROM users WHERE name = ? AND password = SHA2(CONCAT(?, ':', ?), 256)", {who.user, who.user, who.password}, Again::kYes);
        if (done == Done::kFailed) return failed();
        ++(done == Done::kRow ? counters->accepted : counters->refused);
        return done == Done::kRow ? "ok" : "error: wrong user or password";
    }

    // The end of a request: without --keep-db the next one has a connection of its own.
    void forget() {
        if (!settings_.keep_db) connection_.reset();
    }

   private:
    enum class Done { kRow, kNothing, kDuplicate, kFailed };
    enum class Again { kNo, kYes };

    bool connect() {
        if (connection_) return true;
        connection_.reset(mysql_init(nullptr));
        if (!connection_) return false;
        unsigned timeout = static_cast<unsigned>(settings_.timeout_s) + 1;
        for (auto option : {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT})
            mysql_optionsv(connection_.get(), option, &timeout);
        bool by_port = settings_.port > 0;
        if (mysql_real_connect(connection_.get(), by_port ? "127.0.0.1" : nullptr, settings_.user.c_str(), settings_.password.c_str(),
                               settings_.database.c_str(), settings_.port, by_port ? nullptr : settings_.socket.c_str(), 0)) {
            ++counters->database_connections;
            return true;
        }
        why_ = mysql_errno(connection_.get());
        connection_.reset();
        return false;
    }

    // A connection that was kept may be gone: then once more over a new one, where nothing can have been done over the old. An
    // INSERT whose answer was lost (2013) may have been: it is told, and not done again.
    Done run(const char* sql, std::vector<std::string> values, Again again) {
        bool kept = connection_ != nullptr;
        if (!connect()) return Done::kFailed;
        Done done = once(sql, values);
        bool undone = why_ == kGone || (why_ == kLost && (again == Again::kYes || !executed_));
        if (done == Done::kFailed && kept && undone) {
            connection_.reset();
            if (!connect()) return Done::kFailed;
            done = once(sql, values);
        }
        if (done == Done::kFailed) connection_.reset();
        return done;
    }

    Done once(const char* sql, std::vector<std::string>& values) {
        executed_ = false;
        std::unique_ptr<MYSQL_STMT, decltype(&mysql_stmt_close)> statement(mysql_stmt_init(connection_.get()), mysql_stmt_close);
        if (!statement || mysql_stmt_prepare(statement.get(), sql, std::strlen(sql))) return fail(statement.get());
        std::vector<MYSQL_BIND> bound(values.size());
        for (size_t at = 0; at < values.size(); ++at) {
            std::memset(&bound[at], 0, sizeof bound[at]);
            bound[at].buffer_type = MYSQL_TYPE_STRING;
            bound[at].buffer = values[at].data();
            bound[at].buffer_length = values[at].size();
        }
        if (mysql_stmt_bind_param(statement.get(), bound.data())) return fail(statement.get());
        executed_ = true;
        if (mysql_stmt_execute(statement.get())) {
            if (mysql_stmt_errno(statement.get()) == kDuplicate) return Done::kDuplicate;
            return fail(statement.get());
        }
        if (mysql_stmt_field_count(statement.get()) == 0) return Done::kNothing;
        if (mysql_stmt_store_result(statement.get())) return fail(statement.get());
        return mysql_stmt_num_rows(statement.get()) > 0 ? Done::kRow : Done::kNothing;
    }

    Done fail(MYSQL_STMT* statement) {
        why_ = statement ? mysql_stmt_errno(statement) : 2008;
        return Done::kFailed;
    }

    std::string failed() {
        ++counters->database_errors;
        return "error: database " + std::to_string(why_);
    }

    const Settings& settings_;
    std::unique_ptr<MYSQL, decltype(&mysql_close)> connection_{nullptr, mysql_close};
    unsigned why_ = 0;
    bool executed_ = false;  // whether the last statement was sent to be executed
};

std::string answer_to(Got got, const std::string& line, Users& users) {
    if (got == Got::kLine && line == "stats") return stats();
    auto asked = got == Got::kLine ? parse_credentials(line) : std::nullopt;
    if (!asked || (asked->kind != "new" && asked->kind != "auth")) {
        ++counters->bad;
        return "error: say new:user:password or auth:user:password\n";
    }
    ++counters->asked;
    return (asked->kind == "new" ? users.make(*asked) : users.check(*asked)) + "\n";
}

// A process of its own: line after line until the peer ends.
void serve(int fd, const Settings& settings) {
    LineReader reader(fd);
    Users users(settings);
    std::string line;
    for (;;) {
        Got got = reader.next(line, Deadline(settings.timeout_s));
        if (got == Got::kEnd || got == Got::kNothing) return;
        if (!send_all(fd, answer_to(got, line, users), Deadline(settings.timeout_s)) || got == Got::kTooLong) return;
        users.forget();
    }
}

// A child's end. At exit LeakSanitizer looks; else nothing of the parent's is to be run again.
[[noreturn]] void end_child() {
    mysql_library_end();
#ifdef __SANITIZE_ADDRESS__
    std::exit(0);
#else
    _exit(0);
#endif
}

void fork_for(int fd, int listener, const Settings& settings) {
    Socket socket(fd);
    pid_t child = fork();
    if (child < 0) {
        ++counters->fork_errors;
        send_all(fd, "error: no process is left\n", Deadline(0.1));
        return;
    }
    if (child > 0) {
        ++counters->forks;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(listener);
    serve(fd, settings);
    close_politely(socket);
    end_child();
}

struct Peer {
    Socket socket;
    LineReader reader;
    Clock::time_point heard;
    explicit Peer(int fd) : socket(fd), reader(fd), heard(Clock::now()) {}
};

// Answers all lines that have come; false where the connection is over.
bool turn(Peer& peer, Users& users, const Settings& settings) {
    if (peer.reader.fill()) return false;
    peer.heard = Clock::now();
    std::string line;
    while (auto got = peer.reader.take(line)) {
        if (!send_all(peer.socket.get(), answer_to(*got, line, users), Deadline(settings.timeout_s)) || *got == Got::kTooLong)
            return false;
        users.forget();
    }
    return true;
}

// A worker: many connections, their lines one after another.
void work(int listener, const Settings& settings) {
    Users users(settings);
    std::vector<std::unique_ptr<Peer>> peers;
    while (!ending) {
        std::vector<pollfd> waited{{listener, POLLIN, 0}};
        for (auto& peer : peers) waited.push_back({peer->socket.get(), POLLIN, 0});
        if (poll(waited.data(), waited.size(), 200) < 0 && errno != EINTR) return;
        std::vector<std::unique_ptr<Peer>> kept;
        for (size_t at = 0; at < peers.size(); ++at) {
            bool idle = Clock::now() - peers[at]->heard > std::chrono::duration<double>(settings.timeout_s);
            if (waited[at + 1].revents ? turn(*peers[at], users, settings) : !idle) kept.push_back(std::move(peers[at]));
        }
        peers.swap(kept);
        if (waited[0].revents & POLLIN) {
            int fd = accept_from(listener);
            if (fd >= 0) {
                ++counters->connections;
                peers.push_back(std::make_unique<Peer>(fd));
            }
        }
    }
}

void run_workers(int listener, int count, const Settings& settings) {
    std::vector<pid_t> children;
    for (int number = 0; number < count; ++number) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(listener, settings);
            end_child();
        }
        if (child < 0) die("no process is left");
        children.push_back(child);
    }
    while (!ending) poll(nullptr, 0, 200);
    for (pid_t child : children) kill(child, SIGTERM);
    for (pid_t child : children) waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
    Options options(argc, argv,
                    {{"host", "127.0.0.1"}, {"port", "10001"}, {"db-socket", "/run/mysqld/mysqld.sock"}, {"db-port", "0"}, {"db-user", "lab"},
                     {"db-name", "lab"},
                     {"workers", "0"}, {"keep-db", "0"}, {"timeout", "20"}, {"backlog", "4096"}});
    const char* password = std::getenv("DB_PASSWORD");
    const Settings settings{options.text("db-socket"), options.text("db-user"), password ? password : "", options.text("db-name"),
                            static_cast<unsigned>(options.count("db-port")), options.number("timeout"), options.count("keep-db") != 0};
    counters = shared_counters<Counters>();
    if (mysql_library_init(0, nullptr, nullptr)) die("the database's library does not start");
    signal(SIGPIPE, SIG_IGN);
    struct sigaction stop {};
    stop.sa_handler = [](int) { ending = true; };
    sigaction(SIGTERM, &stop, nullptr);
    sigaction(SIGINT, &stop, nullptr);
    Socket listener = listen_on(options.text("host"), options.count("port"), options.count("backlog"));
    fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    if (options.count("workers") > 0) {
        run_workers(listener.get(), options.count("workers"), settings);
    } else {
        struct sigaction reaped {};
        reaped.sa_handler = SIG_DFL;
        reaped.sa_flags = SA_NOCLDWAIT;
        sigaction(SIGCHLD, &reaped, nullptr);
        while (!ending) {
            if (!wait_for(listener.get(), POLLIN, Deadline(0.2))) continue;
            int fd = accept_from(listener.get());
            if (fd < 0) continue;
            ++counters->connections;
            fork_for(fd, listener.get(), settings);
        }
    }
    mysql_library_end();
    return 0;
}
