// The progress bar: on a terminal's stderr only, erased when the work is done.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common.hpp"

namespace kith::cli {

/// Draws at most ten times a second, and only after the first fifth of a second.
class ProgressBar {
 public:
  /// Silent when stderr is no terminal, or with --quiet.
  explicit ProgressBar(const Common& common);
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// For Execution::progress; empty when the bar is silent.
  std::function<void(const Progress&)> callback();
  void report(const Progress& progress);
  void erase();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_ = false;
  bool drawn_ = false;
  std::string stage_;
  Clock::time_point stage_start_;
  Clock::time_point last_;
};

/// The line the bar shows; apart for its test. `width` is the terminal's.
std::string progress_line(const Progress& progress, double seconds, int width);

}  // namespace kith::cli
