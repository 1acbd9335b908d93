// Cases by name, by sizes, and of the user's rows.
#include "ladder_cases.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "stream.hpp"

namespace kith::cli {
namespace {

constexpr std::string_view of_graphs = "graph";
constexpr std::int64_t longest_worklist = 65'536;

void check_list_sizes(std::vector<ladder::Case>& cases, const LadderCases& asked) {
  bool graphs = false;
  for (ladder::Case& c : cases) {
    if (c.list_size == 0) continue;
    graphs = true;
    if (!asked.list_size_named) continue;
    if (asked.list_size < c.k) {
      throw InvalidArgument(fmt::format("--list-size {}: case {} finds k = {}; use {} or more",
                                        asked.list_size, asked.given() ? std::string(of_graphs) : c.name(),
                                        c.k, c.k));
    }
    c.list_size = asked.list_size;
  }
  if (asked.list_size_named && (asked.list_size < 1 || asked.list_size > longest_worklist)) {
    throw InvalidArgument(fmt::format("--list-size {}: use 1 to {}", asked.list_size, longest_worklist));
  }
  if (asked.list_size_named && !graphs) {
    throw InvalidArgument("--list-size is for cases of graphs; name one with --case graph");
  }
}

// A case of graphs, of sizes that are 0 where they are the files' to say.
ladder::Case case_of_given(const LadderCases& asked) {
  if (asked.base.path.empty()) throw InvalidArgument("--queries are searched for in --base; name that, too");
  if (asked.queries.path.empty())
    throw InvalidArgument("--base needs the rows to search for; name --queries");
  const std::string& name = asked.names.front();
  if (asked.names.size() > 1 || !name.starts_with(of_graphs)) {
    throw InvalidArgument(
        fmt::format("--case {}: --base and --queries are for one case of graphs; use --case graph",
                    fmt::join(asked.names, " --case ")));
  }
  if (asked.k < 1 || asked.k > longest_worklist) {
    throw InvalidArgument(fmt::format("-k {}: use 1 to {}", asked.k, longest_worklist));
  }
  ladder::Case out;
  out.k = asked.k;
  if (name != of_graphs) {
    out = ladder::parse_case(name);
    const bool k_said = std::ranges::count(name, ',') == 3;
    if (k_said && asked.k_named && out.k != asked.k) {
      throw InvalidArgument(
          fmt::format("--case '{}' finds k = {}, and -k is {}; leave one of them out", name, out.k, asked.k));
    }
    if (!k_said) out.k = asked.k;
  }
  out.list_size = std::max(ladder::default_list_size, out.k);
  return out;
}

// Refuses what the rungs would not be exact on, or cannot count.
void check_bytes(const DatasetView& rows, const Source& source) {
  const std::string file = shown(source.path);
  if (rows.dtype != Dtype::u8) {
    throw InvalidArgument(
        fmt::format("'{}' has rows of {}; rows of bytes (u8) are needed, since sums of their squares must be "
                    "exact in float32: convert whole numbers from 0 to 255 by kith convert --dtype u8",
                    file, name(rows.dtype)));
  }
  if (rows.dim > ladder::most_byte_dims) {
    throw InvalidArgument(
        fmt::format("'{}' has {} dimensions; sums of so many squares of bytes may pass 16777216, up to which "
                    "float32 is exact: use up to {}",
                    file, rows.dim, ladder::most_byte_dims));
  }
  constexpr std::int64_t most_rows = std::int64_t{1} << 31;
  if (rows.rows < 1 || rows.rows >= most_rows) {
    throw InvalidArgument(fmt::format("'{}' has {} rows; the ladder counts them by 32 bits, use 1 to {}",
                                      file, rows.rows, most_rows - 1));
  }
}

void check_size(std::string_view name, const Source& source, std::int64_t said, std::int64_t is,
                const char* what) {
  if (said == 0 || said == is) return;
  throw InvalidArgument(
      fmt::format("--case '{}': '{}' has {} {}, not {}; leave the sizes out, they are those of the files",
                  name, shown(source.path), is, what, said));
}

// Results are published: without the folders of the machine.
std::string published_name(const Source& source) {
  return std::filesystem::path(shown(source.path)).filename().string();
}

// @param points, queries bytes of the rows
void check_memory(const Common& common, const ladder::Case& c, double points, bool mapped, double queries,
                  const char* remedy) {
  MemoryPlan plan(common, remedy);
  plan.add("points", points, mapped);
  plan.add("queries", queries);
  // The engine's and a rung's, each with what the list is made from.
  plan.add("answers", 32 * static_cast<double>(c.queries) * static_cast<double>(c.k));
  if (c.list_size > 0) {
    // 66 neighbours, for the engine and for the rungs, the graph's codes and those of one product quantizer.
    const double codes = static_cast<double>(c.dim + std::min(c.dim, ladder::most_subspaces));
    plan.add("graph and codes", (4 * 2 * 66 + codes) * static_cast<double>(c.points));
  }
  plan.check();
}

}  // namespace

std::vector<ladder::Case> cases_of(const LadderCases& asked) {
  std::vector<ladder::Case> out;
  if (asked.given()) {
    out.push_back(case_of_given(asked));
    check_list_sizes(out, asked);
    return out;
  }
  if (asked.k_named) {
    throw InvalidArgument(fmt::format(
        "-k {} is for the rows of --base; other cases have k in their name, DIM,QUERIES,POINTS,K", asked.k));
  }
  if (!asked.input_format.empty()) {
    throw InvalidArgument(fmt::format("--input-format {} is that of --base and --queries, and there are none",
                                      asked.input_format));
  }
  const auto add = [&](const std::vector<ladder::Case>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  for (const std::string& text : asked.names) {
    if (text == "published") {
      add(ladder::published_cases());
    } else if (text == "all") {
      add(ladder::all_cases());
    } else if (text == "tiles") {
      add(ladder::tile_cases());
    } else if (text == of_graphs) {
      out.push_back(ladder::graph_case());
    } else {
      out.push_back(ladder::parse_case(text));
    }
  }
  check_list_sizes(out, asked);
  return out;
}

void give_rows(const Common& common, LadderCases& asked, ladder::Case& to) {
  open_inputs(common, {&asked.base, &asked.queries}, asked.input_format);
  const Size base_size = peek(asked.base);
  const Size query_size = peek(asked.queries);
  const char* remedy = "name files of fewer rows";
  MemoryPlan reading(common, remedy);
  reading.add("points", base_size.bytes, base_size.mapped);
  reading.add("queries", query_size.bytes, query_size.mapped);
  reading.check();
  auto rows = std::make_shared<ladder::GivenRows>();
  rows->points = load(common, asked.base);
  check_bytes(rows->points, asked.base);
  rows->queries = load(common, asked.queries);
  check_bytes(rows->queries, asked.queries);
  if (rows->points.dim() != rows->queries.dim()) {
    throw InvalidArgument(fmt::format(
        "'{}' has dimension {}, the queries '{}' have {}; they must be the same", shown(asked.base.path),
        rows->points.dim(), shown(asked.queries.path), rows->queries.dim()));
  }
  const std::string& name = asked.names.front();
  check_size(name, asked.base, to.dim, rows->points.dim(), "dimensions");
  check_size(name, asked.queries, to.queries, rows->queries.rows(), "rows");
  check_size(name, asked.base, to.points, rows->points.rows(), "rows");
  to.dim = rows->points.dim();
  to.queries = rows->queries.rows();
  to.points = rows->points.rows();
  rows->points_file = published_name(asked.base);
  rows->queries_file = published_name(asked.queries);
  // Those with something between them are copied. Of queries the rungs have floats, too.
  const bool adjacent = rows->points.view().contiguous();
  const auto dim = static_cast<double>(to.dim);
  check_memory(common, to, dim * static_cast<double>(to.points), base_size.mapped && adjacent,
               (4 + 1) * dim * static_cast<double>(to.queries), remedy);
  if (!adjacent) rows->points = Dataset::copy(rows->points);
  if (!rows->queries.view().contiguous()) rows->queries = Dataset::copy(rows->queries);
  to.given = std::move(rows);
}

void check_memory(const Common& common, const ladder::Case& c) {
  const double row = 4 * static_cast<double>(c.dim);
  check_memory(common, c, row * static_cast<double>(c.points), false, row * static_cast<double>(c.queries),
               "name a smaller --case");
}

void add_ladder_cases(CLI::App& command, Common& common, LadderCases& cases) {
  command
      .add_option("--case", cases.names,
                  "Sizes: DIM,QUERIES,POINTS[,K]; or published (those with published figures), all (every "
                  "combination of their sizes), tiles (two layers: best-first search, leaves of 4k to 4M "
                  "points), or graph (walks through a Vamana graph, BANG's parts one by one; "
                  "graph:DIM,QUERIES,POINTS[,K] for other sizes than graph:96,1000,100000,10); may be "
                  "repeated")
      ->type_name("CASE")
      ->allow_extra_args(false)
      ->default_str("published")
      ->group("What runs");
  common.file(command
                  .add_option("--base", cases.base.path,
                              "Rows of yours for --case graph, in the place of those it would make: a file "
                              "of vectors of bytes (u8) of up to 258 dimensions. Sizes are the file's")
                  ->type_name("FILE")
                  ->group("What runs"));
  common.file(
      command.add_option("--queries", cases.queries.path, "The rows to search for in --base, bytes, too")
          ->type_name("FILE")
          ->group("What runs"));
  command.add_option("-k,--neighbors", cases.k, "Neighbours to find in --base")
      ->type_name("K")
      ->capture_default_str()
      ->each([&cases](const std::string& /*text*/) { cases.k_named = true; })
      ->group("What runs");
  command
      .add_option("--list-size", cases.list_size,
                  "Length of the worklists of --case graph; what recall a rung must reach is said of 64 and "
                  "more")
      ->type_name("L")
      ->capture_default_str()
      ->each([&cases](const std::string& /*text*/) { cases.list_size_named = true; })
      ->group("What runs");
  add_input_format_option(command, common, cases.input_format, {"--base", "--queries"}, dataset_formats());
}

}  // namespace kith::cli
