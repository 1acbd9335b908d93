// The mailboxes of a sweep: queries that wait for a tile to come.
#include <algorithm>
#include <utility>

#include "point_tiles/sweep.hpp"

namespace kith::point_tiles {

template <class T>
void Sweep<T>::serve(std::int64_t number) {
  if (mail_[static_cast<std::size_t>(number)].empty()) return;
  resident_.reach(number);
  const auto here = get(number);
  if (const std::int64_t next = next_mail(number); next < statistics_.tiles) resident_.expect(next);
  serve(number, *here);
}

// The tile after this one that somebody waits for; past the last where nobody does.
template <class T>
std::int64_t Sweep<T>::next_mail(std::int64_t tile) const {
  std::int64_t next = tile + 1;
  while (next < statistics_.tiles && mail_[static_cast<std::size_t>(next)].empty()) ++next;
  return next;
}

template <class T>
void Sweep<T>::pass_on(Waiting query, std::int64_t current) {
  const auto next = std::ranges::upper_bound(query.tiles, static_cast<std::int32_t>(current));
  const std::int64_t bytes = layout_.bytes(query);
  // In the last sweep all of them ascend, and are what the budget holds.
  if (next == query.tiles.end() || (!last_ && mail_bytes_ + bytes > shares_.waiting / 2)) {
    postponed_.add(std::move(query));
    return;
  }
  mail_bytes_ += bytes;
  mail_[static_cast<std::size_t>(*next)].push_back(std::move(query));
}

template <class T>
void Sweep<T>::serve(std::int64_t number, const Resident& here) {
  std::vector<Waiting> queries = std::exchange(mail_[static_cast<std::size_t>(number)], {});
  if (queries.empty()) return;
  std::vector<Waiting*> visitors;
  for (Waiting& query : queries) {
    mail_bytes_ -= layout_.bytes(query);
    visitors.push_back(&query);
  }
  visit(here, visitors);
  put_finished(queries);
  for (Waiting& query : queries) pass_on(std::move(query), number);
}

template void Sweep<float>::serve(std::int64_t);
template void Sweep<double>::serve(std::int64_t);
template void Sweep<float>::serve(std::int64_t, const Resident&);
template void Sweep<double>::serve(std::int64_t, const Resident&);
template void Sweep<float>::pass_on(Waiting, std::int64_t);
template void Sweep<double>::pass_on(Waiting, std::int64_t);
template std::int64_t Sweep<float>::next_mail(std::int64_t) const;
template std::int64_t Sweep<double>::next_mail(std::int64_t) const;

}  // namespace kith::point_tiles
