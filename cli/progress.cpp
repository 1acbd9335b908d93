// One line, redrawn in place.
#include "progress.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "units.hpp"

namespace kith::cli {
namespace {

int terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

std::string progress_line(const Progress& progress, double seconds, int width) {
  const double total = static_cast<double>(std::max<std::int64_t>(progress.total, 1));
  const double share = std::clamp(static_cast<double>(progress.done) / total, 0.0, 1.0);
  const double rate = seconds > 0 ? static_cast<double>(progress.done) / seconds : 0;
  const std::string left = fmt::format("{} {:3.0f}% ", progress.stage, share * 100);
  std::string right = fmt::format(" {}/{} {}/s", format_short(static_cast<double>(progress.done)),
                                  format_short(total), format_short(rate));
  if (rate > 0)
    right += fmt::format(" ETA {}", format_duration((total - static_cast<double>(progress.done)) / rate));
  const int room = std::min(40, width - 1 - static_cast<int>(left.size() + right.size()) - 2);
  std::string line = left;
  if (room >= 5) {
    const auto filled = static_cast<std::size_t>(share * room);
    line += '[' + std::string(filled, '#') + std::string(static_cast<std::size_t>(room) - filled, ' ') + ']';
  }
  line += right;
  return line.substr(0, static_cast<std::size_t>(std::max(width - 1, 1)));
}

ProgressBar::ProgressBar(const Common& common) : enabled_(!common.quiet && ::isatty(STDERR_FILENO) == 1) {}

std::function<void(const Progress&)> ProgressBar::callback() {
  if (!enabled_) return {};
  return [this](const Progress& progress) { report(progress); };
}

void ProgressBar::report(const Progress& progress) {
  using std::chrono::milliseconds;
  const auto now = Clock::now();
  if (stage_ != progress.stage) {
    stage_ = progress.stage;
    stage_start_ = now;
    last_ = now + milliseconds(100);  // the first drawing comes after 200 ms
  }
  if (now - last_ < milliseconds(100)) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  fmt::print(stderr, "\r\033[K{}", progress_line(progress, seconds, terminal_width()));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::erase() {
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace kith::cli
