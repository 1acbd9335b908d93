#include "table_answer.hpp"

#include <charconv>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/atomic_file.hpp"
#include "core/stream.hpp"
#include "core/temporary_files.hpp"
#include "input.hpp"
#include "kith/error.hpp"
#include "kith/io.hpp"
#include "python.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

std::int64_t count_ids(const std::string& python, const std::string& name) {
  if (name.empty()) return 0;
  const Ended ended = run_program({python, "-B", program_of("_arrow_answers.py"), "check", name});
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(ended.out.data(), ended.out.data() + ended.out.size(), count);
  if (ended.status == 0 && error == std::errc{}) return count;
  throw IoError(ended.out.empty()
                    ? fmt::format("cannot read the ids '{}': Python ended with status {}", name, ended.status)
                    : ended.out.substr(0, ended.out.find('\n')));
}

// The answer as npy files for Python to read, which go away with the object.
class Spilled {
 public:
  Spilled(const std::string& output, const Neighbors& answer) {
    const std::string stem = fmt::format("{}.{}.answer", output, ::getpid());
    for (const char* const part : {".indices.npy", ".distances.npy"}) {
      files_.emplace_back(stem + part);
      notes_.emplace_back(files_.back());
    }
    try {
      write_neighbors(stem, answer, {FileFormat::npy, must_stop});
    } catch (...) {
      remove();
      throw;
    }
  }
  Spilled(const Spilled&) = delete;
  Spilled& operator=(const Spilled&) = delete;
  ~Spilled() { remove(); }

  const std::vector<fs::path>& files() const noexcept { return files_; }

 private:
  void remove() const noexcept {
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
  }
  std::vector<fs::path> files_;
  std::vector<TemporaryFileNote> notes_;
};

}  // namespace

bool is_table_output(const std::string& output, const std::string& format) {
  return format.empty() && !output.empty() && !is_stream(output) && reader_of(output) == Reader::table;
}

void check_table_answer(const std::string& output, bool is_table, AnswerIds& ids) {
  if (!is_table) {
    if (ids.rows.empty() && ids.queries.empty()) return;
    throw InvalidArgument(
        fmt::format("{} is for answers in tables; name one with -o, for example answer.parquet",
                    ids.rows.empty() ? "--query-ids" : "--ids"));
  }
  const std::string python = python_for(output, Reader::table, "written");
  ids.row_count = count_ids(python, ids.rows);
  ids.query_count = count_ids(python, ids.queries);
}

void check_ids(const AnswerIds& ids, std::int64_t rows, std::int64_t queries) {
  const auto check = [](const char* option, const std::string& name, std::int64_t count, std::int64_t needed,
                        const char* of) {
    if (name.empty() || count == needed) return;
    throw InvalidArgument(fmt::format("{} {} has {} entries, there are {} {}; one for each is needed", option,
                                      name, count, needed, of));
  };
  check("--ids", ids.rows, ids.row_count, rows, "rows");
  check("--query-ids", ids.queries, ids.query_count, queries, "queries");
}

void write_table_answer(const std::string& output, const Neighbors& answer, const AnswerIds& ids) {
  const std::string python = python_for(output, Reader::table, "written");
  AtomicFile out(output, must_stop);
  const Spilled spilled(output, answer);
  run_packer({python, "-B", program_of("_arrow_answers.py"), "write", spilled.files()[0].string(),
              spilled.files()[1].string(), out.temporary().string(), output, ids.rows, ids.queries},
             output);
  out.commit();
}

}  // namespace kith::cli
