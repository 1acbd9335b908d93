// Comparison with the oracle, and the counts of what was compared.
#include "conformance/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/format.h>

namespace kith::conformance {

Size size() {
  const char* text = std::getenv("KITH_CONFORMANCE");
  const std::string_view value = text == nullptr ? "" : text;
  if (value == "brief") return Size::brief;
  if (value == "reduced") return Size::reduced;
  if (value == "full") return Size::full;
  EXPECT_TRUE(value.empty()) << "KITH_CONFORMANCE is '" << value
                             << "'; use brief, reduced, full, or leave it unset";
  return Size::normal;
}

IndexParameters parameters_for(const Support& entry, Filter filter) {
  IndexParameters parameters = Indexes::parameters(entry.index, entry.metric);
  set_filter(parameters, filter);
  return parameters;
}

std::vector<Filter> filters(const Support& entry) {
  if (entry.index != "brute_force") return {Filter::automatic};
  if (entry.backend == Device::Kind::cpu) {
    return {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none};
  }
  std::vector<Filter> list = {Filter::automatic, Filter::none};
  const bool manhattan = entry.metric == Metric::manhattan;
  const bool differences =
      manhattan || entry.metric == Metric::sqeuclidean || entry.metric == Metric::euclidean;
  if (!manhattan) list.insert(list.end(), {Filter::int8, Filter::fp16});
  if (differences) list.push_back(Filter::fp32);
  return list;
}

Counts& counts() {
  static Counts held;
  return held;
}

Execution execution_for(const Support& entry, int threads) {
  Execution execution;
  execution.devices = {Device{entry.backend, 0}};
  execution.threads = threads;
  return execution;
}

std::vector<Support> supported_by(Guarantee guarantee) {
  std::vector<Support> list;
  for (const Support& entry : supported) {
    if (Indexes::get(entry.index).guarantee == guarantee) list.push_back(entry);
  }
  return list;
}

std::string entry_name(const Support& entry) {
  return fmt::format("{}_{}_{}_{}", entry.index, entry.backend == Device::Kind::cpu ? "cpu" : "cuda",
                     name(entry.dtype), name(entry.metric));
}

bool backend_usable(const Support& entry) {
  const auto all = devices();
  return std::any_of(all.begin(), all.end(), [&](const DeviceInfo& device) {
    return device.device.kind == entry.backend && device.usable;
  });
}

namespace {

std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

// The bits of a distance as it was returned, and of the true one rounded to the same type.
struct Bits {
  std::uint64_t got;
  std::uint64_t want;
};

Bits distance_bits(const Neighbors& result, std::int64_t at, double truth) {
  const auto i = static_cast<std::size_t>(at);
  if (const auto* single = std::get_if<std::vector<float>>(&result.distances)) {
    return {std::bit_cast<std::uint32_t>((*single)[i]),
            std::bit_cast<std::uint32_t>(static_cast<float>(truth))};
  }
  return {bits(std::get<std::vector<double>>(result.distances)[i]), bits(truth)};
}

}  // namespace

bool compare(const Problem& problem, const Neighbors& result, std::int64_t first, const Label& label) {
  const auto name_case = [&] {
    return fmt::format("{} {} {} {} on {}, n={} d={} k={}, filter {}, {}{}{}", label.entry.index,
                       problem.name, name(problem.dtype), name(problem.metric),
                       name(Device{label.entry.backend, 0}), problem.data.rows, problem.data.dim, result.k,
                       name(label.filter), name(label.set), label.variant.empty() ? "" : ", ", label.variant);
  };
  Counts& count = counts();
  ++count.searches["instruction set"][std::string(name(label.set))];
  ++count.searches["filter"][std::string(name(label.filter))];
  ++count.searches["metric"][std::string(name(problem.metric))];
  ++count.searches["dtype"][std::string(name(problem.dtype))];

  const Dtype wanted = distance_dtype(problem.dtype);
  const auto cells = static_cast<std::size_t>(result.queries * result.k);
  const auto held = std::visit([](const auto& list) { return list.size(); }, result.distances);
  if (result.distance_dtype() != wanted || result.indices.size() != cells || held != cells) {
    ++count.wrong;
    ADD_FAILURE() << name_case() << ": wrong shape or distance type";
    return false;
  }
  for (std::int64_t q = 0; q < result.queries; ++q) {
    const reference::Answer& truth = problem.truth[static_cast<std::size_t>(first + q)];
    for (std::int64_t j = 0; j < result.k; ++j) {
      const bool exists = static_cast<std::size_t>(j) < truth.indices.size();
      const std::int64_t index = exists ? truth.indices[static_cast<std::size_t>(j)] : -1;
      const double distance =
          exists ? truth.distances[static_cast<std::size_t>(j)] : std::numeric_limits<double>::infinity();
      const std::int64_t at = q * result.k + j;
      const std::int64_t got = result.indices[static_cast<std::size_t>(at)];
      const Bits b = distance_bits(result, at, distance);
      if (got != index || b.got != b.want) {
        ++count.wrong;
        ADD_FAILURE() << name_case() << ": query " << first + q << " rank " << j << ": got row " << got
                      << " at " << fmt::format("{} ({:#x})", result.distance(q, j), b.got) << ", want row "
                      << index << " at " << fmt::format("{} ({:#x})", distance, b.want);
        return false;
      }
    }
  }
  count.answers += result.queries * result.k;
  return true;
}

namespace {

// A number that is the same for the same problem in every run (FNV-1a, Fowler, Noll and Vo 1991).
std::uint64_t hash(const Problem& problem) {
  const std::string text =
      fmt::format("{} {} {} {} {} {}", problem.name, name(problem.dtype), name(problem.metric),
                  problem.data.rows, problem.data.dim, problem.queries.rows);
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return value ^ value >> 32U;
}

}  // namespace

std::vector<std::pair<InstructionSet, Filter>> paths(const Support& entry, std::uint64_t chance) {
  const auto list = filters(entry);
  const std::vector<InstructionSet> sets =
      entry.backend == Device::Kind::cpu ? usable_instruction_sets()
                                         : std::vector<InstructionSet>{usable_instruction_sets().front()};
  std::vector<std::pair<InstructionSet, Filter>> out;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    for (std::size_t f = 0; f < list.size(); ++f) {
      const bool filter_chosen = f == (chance / sets.size() + s) % list.size();
      const bool chosen = size() == Size::brief ? s == chance % sets.size() && filter_chosen
                                                : s == chance % sets.size() || filter_chosen;
      if (chosen || size() == Size::full) out.emplace_back(sets[s], list[f]);
    }
  }
  return out;
}

namespace {

Execution on(Device::Kind kind, Execution execution) {
  execution.devices = {Device{kind, 0}};
  return execution;
}

// Where to build and where to search: an index lives where it was built, but trees go anywhere.
std::vector<std::pair<Device::Kind, Device::Kind>> sides(const Support& entry, std::uint64_t chance) {
  constexpr auto cpu = Device::Kind::cpu;
  constexpr auto cuda = Device::Kind::cuda;
  if (entry.backend == cpu || entry.index == "brute_force") return {{entry.backend, entry.backend}};
  if (size() == Size::full) return {{cuda, cuda}, {cuda, cpu}, {cpu, cuda}};
  if (chance % 2 == 0) return {{cuda, cuda}, {cuda, cpu}};
  return {{cuda, cuda}, {cpu, cuda}};
}

}  // namespace

void check_everywhere(const Problem& problem, const Support& entry, const std::vector<std::int64_t>& ks) {
  // Some problems lie contiguous in memory, others strided and off alignment.
  const std::uint64_t chance = hash(problem);
  const std::int64_t gap = chance % 4 == 3 ? 3 : 0;
  const Rows data(problem.data, problem.dtype, gap, gap > 0 ? 1 : 0);
  const Rows queries(problem.queries, problem.dtype, chance % 4 == 1 ? 5 : 0, chance % 4 == 1 ? 3 : 0);
  const Execution execution = execution_for(entry, 1 + static_cast<int>(chance / 4 % 3));
  int wrong = 0;
  for (const auto& [set, filter] : paths(entry, chance / 16)) {
    const Forced forced(set);
    for (const auto& [built_on, searched_on] : sides(entry, chance)) {
      const auto index = AnyIndex::build(Dataset::adopt(data.view(), nullptr), parameters_for(entry, filter),
                                         on(built_on, execution));
      for (const std::int64_t k : ks) {
        const auto result = index.search(queries.view(), k, on(searched_on, execution));
        const std::string variant =
            fmt::format("threads={} gap={} built on {}, searched on {}", execution.threads, gap,
                        name(Device{built_on, 0}), name(Device{searched_on, 0}));
        if (!compare(problem, result, 0, {entry, filter, set, variant}) && ++wrong == 5) {
          GTEST_FAIL() << "5 wrong answers in this problem; the rest of it is left out";
        }
      }
    }
  }
}

}  // namespace kith::conformance
