#include "vamana/cpu/walk.hpp"

#include <bit>

namespace kith::vamana {

std::int64_t Walk::table_size(std::int64_t list_size) {
  const std::int64_t wanted =
      std::clamp(list_size, std::int64_t{1}, tuning::largest_table) * tuning::table_a_list_place;
  return static_cast<std::int64_t>(std::bit_ceil(
      static_cast<std::uint64_t>(std::clamp(wanted, tuning::smallest_table, tuning::largest_table))));
}

std::uint64_t Walk::bytes(std::int64_t list_size, std::int64_t beam_width, std::int64_t degree) {
  return static_cast<std::uint64_t>((list_size + 1) * static_cast<std::int64_t>(sizeof(Key)) +
                                    table_size(list_size) * 4 +
                                    std::max(beam_width * degree, tuning::most_entries) * 8);
}

// Into the list, unless it is full of better ones or has it.
void Walk::offer(Key key) {
  if (size_ == capacity_ && key > list_[size_ - 1]) return;
  Key* const begin = list_.data();
  Key* const at = std::lower_bound(begin, begin + size_, key);
  if (at != begin + size_ && (*at | expanded) == (key | expanded)) return;
  if (size_ < capacity_) ++size_;
  std::memmove(at + 1, at, static_cast<std::size_t>(begin + size_ - 1 - at) * sizeof(Key));
  *at = key;
  next_ = std::min(next_, static_cast<std::size_t>(at - begin));
}

void Walk::evaluate_found(Counters& counters) {
  graph_.estimates(graph_.codes, graph_.code_bytes, plan_.query, found_.data(),
                   static_cast<std::int64_t>(found_count_), estimates_.data());
  counters.distances += static_cast<std::int64_t>(found_count_);
  for (std::size_t i = 0; i < found_count_; ++i) offer(make_key(estimates_[i], found_[i]));
  found_count_ = 0;
}

void Walk::fetch_codes() const {
  std::int64_t lines = tuning::lines_on_their_way;
  for (std::size_t i = 0; i < found_count_ && lines > 0; ++i) {
    const std::uint8_t* code = graph_.codes + std::int64_t{found_[i]} * graph_.code_bytes;
    for (std::int64_t b = 0; b < graph_.code_bytes; b += 64, --lines) __builtin_prefetch(code + b);
  }
}

void Walk::fetch_edges(std::uint32_t node) const {
  const std::uint32_t* edges = graph_.edges + std::int64_t{node} * graph_.stride;
  for (std::int64_t j = 0; j < graph_.stride; j += 16) __builtin_prefetch(edges + j);
}

// Those of the node that is next unless a nearer one turns up: they come while codes are compared.
void Walk::fetch_next_edges() const {
  for (std::size_t i = next_; i < size_; ++i) {
    if ((list_[i] & expanded) != 0) continue;
    fetch_edges(node_of(list_[i]));
    return;
  }
}

// Marks the nearest nodes that are not expanded, and asks for their edges. False where there are none.
bool Walk::choose() {
  beam_.clear();
  for (std::size_t i = next_; i < size_ && static_cast<std::int64_t>(beam_.size()) < plan_.beam_width; ++i) {
    if ((list_[i] & expanded) == 0) {
      if (plan_.seen != nullptr) plan_.seen->push_back(list_[i]);
      list_[i] |= expanded;
      beam_.push_back(node_of(list_[i]));
      fetch_edges(beam_.back());
    }
    if (i == next_) ++next_;
  }
  return !beam_.empty();
}

void Walk::begin(const WalkPlan& plan) {
  plan_ = plan;
  capacity_ = static_cast<std::size_t>(plan.list_size);
  if (list_.size() < capacity_ + 1) list_.resize(capacity_ + 1);
  const auto table = static_cast<std::size_t>(table_size(plan.list_size));
  table_.assign(table, no_node);
  shift_ = 32U - static_cast<unsigned>(std::countr_zero(table));
  const std::size_t room =
      std::max(graph_.entries.size(), stride_ * static_cast<std::size_t>(plan.beam_width));
  if (found_.size() < room) {
    found_.resize(room);
    estimates_.resize(room);
  }
  size_ = next_ = 0;
  beam_.clear();
  gather(graph_.entries.data(), static_cast<std::int64_t>(graph_.entries.size()));
  fetch_codes();
}

bool Walk::step(Counters& counters) {
  if (beam_.empty()) {  // codes have come
    if (plan_.alone) fetch_next_edges();
    evaluate_found(counters);
    return choose();
  }
  for (const std::uint32_t node : beam_) {
    gather(graph_.edges + std::int64_t{node} * graph_.stride, graph_.stride);
  }
  counters.hops += static_cast<std::int64_t>(beam_.size());
  beam_.clear();
  fetch_codes();
  return true;
}

std::span<const Key> Walk::run(const WalkPlan& plan, StopRequest& stop, Counters& counters) {
  begin(plan);
  plan_.alone = true;
  for (std::int64_t steps = 1; step(counters); ++steps) {
    if (steps % tuning::rounds_between_polls == 0) stop.check();
  }
  return list();
}

}  // namespace kith::vamana
