#include "vamana/cpu/walk.hpp"

#include <bit>

namespace kith::vamana {

std::int64_t Walk::table_size(std::int64_t list_size, std::int64_t longest_list) {
  const std::int64_t usual = std::max(list_size, longest_list / tuning::longest_among_allowed);
  const std::int64_t wanted =
      std::clamp(usual, std::int64_t{1}, tuning::largest_table) * tuning::table_a_list_place;
  return static_cast<std::int64_t>(std::bit_ceil(
      static_cast<std::uint64_t>(std::clamp(wanted, tuning::smallest_table, tuning::largest_table))));
}

std::uint64_t Walk::bytes(std::int64_t list_size, std::int64_t longest_list, std::int64_t beam_width,
                          std::int64_t degree) {
  const std::int64_t keys = longest_list > 0 ? longest_list + list_size + 2 : list_size + 1;
  return static_cast<std::uint64_t>(keys * static_cast<std::int64_t>(sizeof(Key)) +
                                    table_size(list_size, longest_list) * 4 +
                                    std::max(beam_width * degree, tuning::most_entries) * 12);
}

namespace {

// The first of `size` ascending keys that is not below `key`. Which half it is in is anyone's guess, so it
// is computed and not branched on: a wrong guess costs as much as the whole search.
inline std::size_t first_not_below(const Key* keys, std::size_t size, Key key) {
  const Key* base = keys;
  while (size > 1) {
    const std::size_t half = size / 2;
    base += half & (std::size_t{0} - static_cast<std::size_t>(base[half - 1] < key));
    size -= half;
  }
  return static_cast<std::size_t>(base - keys) + static_cast<std::size_t>(size == 1 && *base < key);
}

}  // namespace

// Into the list, unless it has it. It is not full of better ones.
void Walk::insert(Key key) {
  Key* const begin = list_.data();
  const std::size_t at = first_not_below(begin, size_, key);
  if (at != size_ && (begin[at] | expanded) == (key | expanded)) return;
  if (size_ < capacity_) ++size_;
  std::memmove(begin + at + 1, begin + at, (size_ - 1 - at) * sizeof(Key));
  begin[at] = key;
  next_ = std::min(next_, at);
}

// Most of what a walk meets is farther than the end of a full list.
void Walk::offer_found() {
  std::size_t i = 0;
  for (; i < found_count_ && size_ < capacity_; ++i) insert(make_key(estimates_[i], found_[i]));
  if (i == found_count_) return;
  Key last = list_[capacity_ - 1];
  for (; i < found_count_; ++i) {
    const Key key = make_key(estimates_[i], found_[i]);
    if (key > last) continue;
    insert(key);
    last = list_[capacity_ - 1];
  }
}

// Into the list, unless it is full of better ones or has it; then the list ends where it must.
void Walk::offer_among_allowed(Key key) {
  // Its last entry is the list_size-th allowed one, or the longest list's last.
  if ((size_ == capacity_ || enough_allowed()) && key > list_[size_ - 1]) return;
  Key* const begin = list_.data();
  Key* const at = begin + first_not_below(begin, size_, key);
  if (at != begin + size_ && (*at | expanded) == (key | expanded)) return;
  std::memmove(at + 1, at, static_cast<std::size_t>(begin + size_ - at) * sizeof(Key));
  *at = key;
  ++size_;
  next_ = std::min(next_, static_cast<std::size_t>(at - begin));
  const auto ends_with_allowed = [&](std::size_t size) {
    return !allowed_.empty() && (list_[size - 1] | expanded) == (allowed_.back() | expanded);
  };
  if (plan_.allowed->contains(node_of(key))) {
    allowed_.insert(std::lower_bound(allowed_.begin(), allowed_.end(), key), key);
    if (static_cast<std::int64_t>(allowed_.size()) > plan_.list_size) allowed_.pop_back();
    while (enough_allowed() && !ends_with_allowed(size_)) --size_;
  }
  if (size_ > capacity_) {
    if (ends_with_allowed(size_)) allowed_.pop_back();
    --size_;
  }
}

void Walk::estimate_found() {
  const auto count = static_cast<std::int64_t>(found_count_);
  if (plan_.worker == nullptr) {
    graph_.estimates(graph_.codes, graph_.code_bytes, plan_.query, found_.data(), count, estimates_.data());
    return;
  }
  if (distances_.size() < estimates_.size()) distances_.resize(estimates_.size());
  plan_.worker->estimate_gathered(graph_.codes, found_.data(), count, distances_.data());
  for (std::size_t i = 0; i < found_count_; ++i) estimates_[i] = ordered(distances_[i]);
}

void Walk::evaluate_found(Counters& counters) {
  estimate_found();
  counters.distances += static_cast<std::int64_t>(found_count_);
  if (plan_.allowed == nullptr) {
    offer_found();
  } else {
    for (std::size_t i = 0; i < found_count_; ++i) offer_among_allowed(make_key(estimates_[i], found_[i]));
  }
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

void Walk::take_shorter_lists() {
  while (next_ < size_ && (list_[next_] & expanded) != 0) ++next_;
  ShorterLists& shorter = *plan_.shorter;
  for (; shorter.taken < shorter.sizes.size(); ++shorter.taken) {
    const auto size = std::min(static_cast<std::size_t>(shorter.sizes[shorter.taken]), size_);
    if (size > next_) break;
    shorter.lists[shorter.taken].assign(list_.data(), list_.data() + size);
    shorter.hops[shorter.taken] = hops_;
  }
}

// Marks the nearest nodes that are not expanded, and asks for their edges. False where there are none.
bool Walk::choose() {
  if (plan_.shorter != nullptr) take_shorter_lists();
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
  capacity_ = static_cast<std::size_t>(plan.allowed != nullptr ? plan.longest_list : plan.list_size);
  allowed_.clear();
  if (list_.size() < capacity_ + 1) list_.resize(capacity_ + 1);
  const auto table = static_cast<std::size_t>(table_size(plan.list_size, plan.longest_list));
  table_.assign(table, no_node);
  shift_ = 32U - static_cast<unsigned>(std::countr_zero(table));
  const std::size_t room =
      std::max(graph_.entries.size(), stride_ * static_cast<std::size_t>(plan.beam_width));
  if (found_.size() < room) {
    found_.resize(room);
    estimates_.resize(room);
  }
  size_ = next_ = 0;
  hops_ = 0;
  if (plan.shorter != nullptr) {
    plan.shorter->lists.resize(plan.shorter->sizes.size());
    plan.shorter->hops.assign(plan.shorter->sizes.size(), 0);
    plan.shorter->taken = 0;
  }
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
  hops_ += static_cast<std::int64_t>(beam_.size());
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
