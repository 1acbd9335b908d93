// Programs in Python that kith hands work to: which Python, and how it is run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kith::cli {

/// What a child left: its status as a shell counts it, and its standard output.
struct Ended {
  int status = 0;
  std::string out;
};

/// Where the page goes that is for a stream: the program finds it there, its standard output is taken.
constexpr int page_descriptor = 3;

/// What a program gets of ours.
struct Given {
  bool input = false;  ///< standard input, else nothing
  int page = -1;       ///< becomes page_descriptor
};

/// Runs a program to its end; stderr stays ours. A signal ends it first. @throws IoError, Cancelled
Ended run_program(std::vector<std::string> arguments, const Given& given = {});

/// Where this program lies.
std::filesystem::path program_folder();

/// The Python that was named, or the first that has all `modules`: the build's own, then python3.
/// @param what needs it, for the message: "the report is drawn by"
/// @param remedy how to install them
/// @throws IoError
std::string find_python(const std::string& named, const std::vector<std::string>& modules,
                        const std::string& what, const std::string& remedy);

}  // namespace kith::cli
