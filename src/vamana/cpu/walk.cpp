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

void Walk::evaluate_found(const std::uint8_t* query, Counters& counters) {
  kernels_.gathered(graph_.codes, graph_.code_bytes, query, found_.data(),
                    static_cast<std::int64_t>(found_count_), estimates_.data());
  counters.distances += static_cast<std::int64_t>(found_count_);
  for (std::size_t i = 0; i < found_count_; ++i) offer(make_key(estimates_[i], found_[i]));
  found_count_ = 0;
}

std::span<const Key> Walk::run(const std::uint8_t* query, std::int64_t list_size, std::int64_t beam_width,
                               std::uint32_t left_out, StopRequest& stop, Counters& counters,
                               std::vector<Key>* seen) {
  capacity_ = static_cast<std::size_t>(list_size);
  if (list_.size() < capacity_ + 1) list_.resize(capacity_ + 1);
  const auto table = static_cast<std::size_t>(table_size(list_size));
  table_.assign(table, no_node);
  shift_ = 32U - static_cast<unsigned>(std::countr_zero(table));
  const std::size_t room = std::max(graph_.entries.size(), stride_ * static_cast<std::size_t>(beam_width));
  if (found_.size() < room) {
    found_.resize(room);
    estimates_.resize(room);
  }
  size_ = next_ = 0;
  gather(graph_.entries.data(), static_cast<std::int64_t>(graph_.entries.size()), left_out);
  evaluate_found(query, counters);

  std::int64_t polled = 0;
  while (true) {
    std::int64_t beam = 0;
    for (std::size_t i = next_; i < size_ && beam < beam_width; ++i) {
      if ((list_[i] & expanded) != 0) {
        if (i == next_) ++next_;
        continue;
      }
      if (seen != nullptr) seen->push_back(list_[i]);
      list_[i] |= expanded;
      if (i == next_) ++next_;
      gather(graph_.edges + static_cast<std::int64_t>(node_of(list_[i])) * graph_.stride, graph_.stride,
             left_out);
      ++beam;
    }
    if (beam == 0) break;
    counters.hops += beam;
    // The node that is next unless a nearer one turns up: its edges come while codes are compared.
    for (std::size_t i = next_; i < size_; ++i) {
      if ((list_[i] & expanded) != 0) continue;
      const std::uint32_t* edges =
          graph_.edges + static_cast<std::int64_t>(node_of(list_[i])) * graph_.stride;
      for (std::int64_t j = 0; j < graph_.stride; j += 16) __builtin_prefetch(edges + j);
      break;
    }
    evaluate_found(query, counters);
    polled += beam;
    if (polled >= tuning::steps_between_polls) {
      stop.check();
      polled = 0;
    }
  }
  return {list_.data(), size_};
}

}  // namespace kith::vamana
