#include "python.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "interrupt.hpp"
#include "kith/error.hpp"

namespace kith::cli {

namespace fs = std::filesystem;

Ended run_program(std::vector<std::string> arguments, const Given& given) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw IoError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (given.page >= 0) posix_spawn_file_actions_adddup2(&actions, given.page, page_descriptor);
  if (!given.input) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, arguments[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    throw IoError(fmt::format("cannot start '{}': {}", arguments[0], std::strerror(failed)));
  }
  Ended ended;
  bool told = false;
  // Woken every 50 ms: reads are restarted after a signal, and the flag must be seen.
  for (bool open = true; open;) {
    if (interrupted() && !told) {
      ::kill(child, SIGTERM);
      told = true;
    }
    pollfd watched{ends[0], POLLIN, 0};
    if (::poll(&watched, 1, 50) <= 0) continue;
    std::array<char, 1 << 14> buffer;
    const ssize_t n = ::read(ends[0], buffer.data(), buffer.size());
    if (n > 0) ended.out.append(buffer.data(), static_cast<std::size_t>(n));
    open = n > 0 || (n < 0 && errno == EINTR);
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (interrupted()) throw Cancelled("interrupted");
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

namespace {

/// Why a Python will not do; empty where it will.
std::string objection(const std::string& python, const std::vector<std::string>& modules) {
  const char* const probe =
      "import sys, importlib.util as u; sys.exit(3 if sys.version_info < (3, 10) else next((4 + i for i, m "
      "in "
      "enumerate(sys.argv[1:]) if u.find_spec(m) is None), 0))";
  std::error_code ignored;
  if (python.find('/') != std::string::npos && !fs::exists(python, ignored)) return "does not exist";
  try {
    std::vector<std::string> call = {python, "-c", probe};
    call.insert(call.end(), modules.begin(), modules.end());
    const Ended ended = run_program(call);
    if (ended.status == 0) return {};
    if (ended.status == 3) return "is older than Python 3.10";
    const int missing = ended.status - 4;
    if (missing >= 0 && missing < static_cast<int>(modules.size())) {
      return "has no " + modules[static_cast<std::size_t>(missing)];
    }
    return fmt::format("is no Python: it ended with status {}", ended.status);
  } catch (const IoError& failure) {
    return failure.what();
  }
}

}  // namespace

std::string find_python(const std::string& named, const std::vector<std::string>& modules,
                        const std::string& what, const std::string& remedy) {
  std::vector<std::string> candidates;
  if (!named.empty()) {
    candidates = {named};
  } else {
    const fs::path built = program_folder().parent_path() / "venv/bin/python";
    std::error_code ignored;
    if (fs::exists(built, ignored)) candidates.push_back(built.string());
    candidates.emplace_back("python3");
  }
  std::string found;
  for (const std::string& python : candidates) {
    const std::string why = objection(python, modules);
    if (why.empty()) return python;
    found += fmt::format("{}'{}' {}", found.empty() ? "" : ", ", python, why);
  }
  throw IoError(fmt::format("{} Python 3.10 or newer with {}, but {}; {}", what, fmt::join(modules, " and "),
                            found, remedy));
}

}  // namespace kith::cli
