// kith report: hands results to the Python program that draws them (python/kith/report), and its word back.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/stream.hpp"
#include "interrupt.hpp"
#include "python.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

struct Options {
  std::vector<std::string> inputs;
  std::string output;
  std::string images;
  std::string title;
  std::string python;
};

/// The Python program: beside an installed kith, in the source tree around a built one, else the installed
/// package.
std::vector<std::string> program() {
  std::error_code error;
  const fs::path bin = program_folder();
  for (const fs::path& folder :
       {bin.parent_path() / "share/kith/report", bin.parent_path().parent_path() / "python/kith/report",
        bin.parent_path().parent_path().parent_path() / "python/kith/report"}) {
    if (fs::exists(folder / "__main__.py", error)) return {folder.string()};
  }
  return {"-m", "kith.report"};
}

[[noreturn]] void fail(const json& error) {
  const std::string message = error.value("message", "the report failed");
  if (error.value("kind", "") == "usage") throw InvalidArgument(message);
  throw IoError(message);
}

/// A descriptor of a stream, closed at the end.
struct Stream {
  explicit Stream(int opened) : descriptor(opened) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor;
};

void run(Options& options, const Common& common) {
  const CancellableScope scope;
  options.output = output_path(common, options.output);
  const Stream page(writes_to_stream() ? open_stream(options.output, interrupted) : -1);
  std::int64_t standard = 0;
  for (std::string& input : options.inputs) {
    if (input == "-") input = "/dev/stdin";
    standard += descriptor_of(input) == STDIN_FILENO ? 1 : 0;
  }
  if (standard > 1) {
    throw InvalidArgument("standard input ('-') can be read only once; name files for the other results");
  }
  std::vector<std::string> call = {find_python(options.python, {"matplotlib"}, "the report is drawn by",
                                               "install it (python3 -m pip install matplotlib, on Debian "
                                               "apt-get install python3-matplotlib), or name a "
                                               "Python that has it with --python or KITH_PYTHON"),
                                   "-B"};  // no byte code beside the files
  for (const std::string& word : program()) call.push_back(word);
  call.insert(call.end(),
              {"--json", "--output=" + (page.descriptor >= 0 ? fmt::format("/dev/fd/{}", page_descriptor)
                                                             : options.output)});
  if (!options.images.empty()) call.push_back("--images=" + options.images);
  if (!options.title.empty()) call.push_back("--title=" + options.title);
  call.emplace_back("--");
  call.insert(call.end(), options.inputs.begin(), options.inputs.end());
  const Ended ended = run_program(call, {standard > 0, page.descriptor});
  json answer = json::parse(ended.out, nullptr, false);
  if (answer.is_object() && answer.contains("error")) fail(answer["error"]);
  if (ended.status != 0 || !answer.is_object() || !answer.contains("charts")) {
    throw IoError(fmt::format("'{}' ended with status {} and no report; its own message is above", call[0],
                              ended.status));
  }
  answer["output"] = options.output;
  if (common.json) {
    print_json(answer);
    return;
  }
  for (const auto& part : answer["left_out"]) {
    note(common, fmt::format("left out: {}: {}", part["section"].get<std::string>(),
                             part["reason"].get<std::string>()));
  }
  const std::size_t pictures = answer["images"].size();
  note(common, fmt::format("wrote {}{}", shown_output(options.output),
                           pictures > 0 ? fmt::format(" and {} in {}",
                                                      plural(static_cast<std::int64_t>(pictures), "picture"),
                                                      options.images)
                                        : std::string()));
}

}  // namespace

void add_report(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_command(app, common, "report", "Draw what ladder and bench measured, as one page",
                                  [options, &common] { run(*options, common); });
  common.file(command
                  .add_option("RESULT", options->inputs,
                              "JSON of kith ladder, kith bench, gpu_search or benchmarks.vamana")
                  ->required()
                  ->expected(1, -1));
  common.file(command.add_option("-o,--output", options->output, "The page, written whole or not at all")
                  ->type_name("FILE")
                  ->required()
                  ->group("Output"));
  common.file(command
                  .add_option("--images", options->images,
                              "Also write every chart into this folder, as SVG and PNG; made where missing")
                  ->type_name("FOLDER")
                  ->group("Output"));
  command.add_option("--title", options->title, "The page's title")->type_name("TEXT")->group("Output");
  common.file(command
                  .add_option("--python", options->python,
                              "Python 3.10 or newer that has matplotlib; default: venv of the build folder, "
                              "else python3")
                  ->type_name("PROGRAM")
                  ->envname("KITH_PYTHON")
                  ->group("Output"));
  common.about(command).details = {
      "The page is one HTML file without scripts or external resources: it opens from a disk, has a light "
      "and a dark style, and prints. It shows the ladder with the floor of the hardware, what each rung is "
      "worth, the roofline, the recall of graphs against their queries a second, queries a second, scaling "
      "over threads and GPUs, what the certified filter keeps, and the machines, each chart with a table of "
      "its numbers. Charts without data are left out, and a note says which.",
      "Python draws it, with matplotlib; 'python -m kith.report' of the Python package does the same."};
  common.about(command).examples = {{"kith report ladder.json -o ladder.html", "What kith ladder measured."},
                                    {"kith report ladder.json bench.json -o report.html --images figures",
                                     "One page of two results, and its charts as files."}};
}

}  // namespace kith::cli
