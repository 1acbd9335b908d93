// A process that does some work on point tiles and is killed meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "kith/point_tiles.hpp"
#include "point_tiles/pacer.hpp"
#include "support/files.hpp"
#include "unit/point_tiles/clouds.hpp"

namespace kith::test {

namespace fs = std::filesystem;

// Everything below a folder, by name.
inline std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

class ResumeTest : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 10000;
  std::vector<double> values = make_cloud<double>(Cloud::uniform, rows, 3, 31);
  DatasetView view{values.data(), rows, 3};
  TemporaryFolder folder;

  // Everything is made safe at once, and is safe when the work goes on: what a killed child leaves does not
  // depend on how fast the disk is.
  void SetUp() override {
    point_tiles::Pacer::every = 1;
    point_tiles::Saver::waits = true;
  }
  void TearDown() override {
    point_tiles::Pacer::every = 0;
    point_tiles::Saver::waits = false;
  }

  enum class Kill { report, poll };
  // Has a child do the work, which is killed at its n-th report of progress, or when it is asked for the n-th
  // time whether to stop. @return whether it was
  static bool killed_at(int report, const std::function<void(const Execution&)>& work,
                        Kill when = Kill::report) {
    const pid_t child = ::fork();
    if (child == 0) {
      int left = report;
      Execution execution;
      execution.threads = 2;
      execution.memory_limit = 6 << 20;
      if (when == Kill::report) {
        execution.progress = [&](const Progress&) {
          if (--left <= 0) (void)::kill(::getpid(), SIGKILL);
        };
      } else {
        execution.cancelled = [&] {
          if (--left <= 0) (void)::kill(::getpid(), SIGKILL);
          return false;
        };
      }
      try {
        work(execution);
      } catch (const std::exception& error) {
        (void)::fprintf(stderr, "%s\n", error.what());
        ::_exit(2);
      }
      ::_exit(0);
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  // Kills it after some reports, more from time to time so that it comes to its end, and compares with what
  // an undisturbed child leaves. Saves run beside the work here, so that a kill may come in the middle of
  // one.
  static void disturb(const fs::path& expected, const fs::path& found, int reports,
                      const std::function<void(const fs::path&, const Execution&)>& work) {
    point_tiles::Saver::waits = false;
    fs::create_directories(expected);
    fs::create_directories(found);
    ASSERT_FALSE(killed_at(1 << 30, [&](const Execution& how) { work(expected, how); }));
    int kills = 0;
    while (killed_at(reports + 2 * kills, [&](const Execution& how) { work(found, how); })) {
      ASSERT_LT(++kills, 100);
    }
    EXPECT_GT(kills, 0);
    EXPECT_EQ(contents(expected), contents(found));
  }
};

}  // namespace kith::test
