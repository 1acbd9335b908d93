// A peer as a child process: one JSON object a line in each direction over a pair of sockets.
#include "peer.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "interrupt.hpp"
#include "kith/error.hpp"

namespace kith::cli {

namespace {

/// The environment with every thread pool a peer may use set to `threads`.
std::vector<std::string> environment_with_threads(int threads) {
  const std::vector<std::string> names = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                                          "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"};
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& name : names) replaced = replaced || text.compare(0, name.size() + 1, name + "=") == 0;
    if (!replaced) out.push_back(text);
  }
  for (const auto& name : names) out.push_back(fmt::format("{}={}", name, threads));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

PeerProcess::PeerProcess(const PeerTask& task) : name_(task.peer) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw IoError(fmt::format("cannot make a socket for peer '{}': {}", name_, std::strerror(errno)));
  }
  socket_ = ends[0];
  std::vector<std::string> arguments = {task.python.string(), task.runner.string()};
  std::vector<std::string> environment = environment_with_threads(task.threads);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const int failed = ::posix_spawnp(&process_, arguments[0].c_str(), &actions, nullptr,
                                    pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    process_ = -1;
    stop();
    throw IoError(fmt::format("cannot start '{}' for peer '{}': {}; name an interpreter with --peers-python",
                              task.python.string(), name_, std::strerror(failed)));
  }
  try {
    about_ = ask({{"peer", task.peer},
                  {"base", task.base.string()},
                  {"queries", task.queries.string()},
                  {"max_queries", task.max_queries},
                  {"batch", task.batch},
                  {"k", task.k},
                  {"metric", task.metric},
                  {"threads", task.threads}});
  } catch (...) {
    stop();
    throw;
  }
}

PeerProcess::~PeerProcess() {
  stop();
}

void PeerProcess::stop() noexcept {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  if (process_ > 0) {
    ::kill(process_, SIGTERM);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
}

std::vector<double> PeerProcess::search() {
  return ask({{"do", "search"}}).at("seconds").get<std::vector<double>>();
}

nlohmann::json PeerProcess::finish(const std::filesystem::path& stem) {
  nlohmann::json last = ask({{"do", "finish"}, {"stem", stem.string()}});
  stop();
  return last;
}

nlohmann::json PeerProcess::ask(const nlohmann::json& request) {
  const std::string line = request.dump() + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR && !interrupted()) continue;
    if (n <= 0) break;  // it is gone: read_reply says so
    sent += static_cast<std::size_t>(n);
  }
  nlohmann::json reply = read_reply();
  if (reply.contains("error")) {
    throw InvalidArgument(fmt::format("peer '{}': {}", name_, reply["error"].get<std::string>()));
  }
  return reply;
}

nlohmann::json PeerProcess::read_reply() {
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      nlohmann::json reply = nlohmann::json::parse(line, nullptr, false);
      if (reply.is_object()) return reply;
      throw IoError(fmt::format("peer '{}' answered '{}', which is not what benchmarks/peers/run.py says",
                                name_, line.substr(0, 200)));
    }
    char buffer[1 << 16];
    const ssize_t n = ::read(socket_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      if (interrupted()) throw Cancelled("interrupted");
      continue;
    }
    if (n <= 0) {
      throw IoError(fmt::format("peer '{}' ended without an answer; its own message is above", name_));
    }
    unread_.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace kith::cli
