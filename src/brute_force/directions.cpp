#include "brute_force/directions.hpp"

#include <vector>

namespace kith::brute_force {

namespace {

constexpr std::int64_t sample_rests = 1024;

std::optional<std::int64_t> forced;
std::optional<std::int64_t> forced_short;

}  // namespace

void force_directions(std::optional<std::int64_t> count) {
  forced = count;
}

std::optional<std::int64_t> forced_directions() {
  return forced;
}

void force_short_codes(std::optional<std::int64_t> directions) {
  forced_short = directions;
}

std::optional<std::int64_t> forced_short_codes() {
  return forced_short;
}

bool may_have_directions(const codes::CodeSpace& space) {
  const codes::Form form = space.choice.form;
  return space.choice.filter != Filter::none && space.dim <= codes::Projection::largest_dim &&
         (form == codes::Form::triangle || form == codes::Form::cauchy || form == codes::Form::integer);
}

double largest_rest(const DatasetView& rows, const codes::CodeSpace& space) {
  const std::vector<double> rests = codes::rests_of(rows, space, sample_rests);
  return rests.empty() ? 0 : 2 * rests[rests.size() * 19 / 20];
}

}  // namespace kith::brute_force
