// A search of one shard for a batch of queries.
#pragma once

#include <cstdint>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"

namespace kith::brute_force {

template <class R>
class ShardSearch {
 public:
  // `listed`: where the plan is by lists.
  ShardSearch(Shard& shard, Workspace& w, const Plan& plan, std::int64_t list_k, const Execution& execution,
              const cuda::ListedQueries& listed = {})
      : shard_(shard),
        w_(w),
        plan_(plan),
        list_k_(list_k),
        execution_(execution),
        stream_(w.stream),
        listed_(listed) {}

  // The answers, but for queries that kept more than there was room for: so many are left, see left_ids and
  // left_bounds. With `exact_rest` these are evaluated without a filter, and none is left.
  std::int64_t run(const void* queries, std::int64_t stride, std::int64_t count, const R* best,
                   std::int64_t k, std::int64_t* indices, R* distances, bool exact_rest);

  // One look at every pair, for a plan of that kind. False: some query is not answered this way.
  bool one_pass(const void* queries, std::int64_t stride, std::int64_t count, std::int64_t* indices,
                R* distances);

  // Rows that the bounds do not let a query leave out, all queries together; of a search by lists.
  std::int64_t visited();

  // What the filter kept, the rows of an open first stage among them; 0 after one look at every pair.
  std::int64_t kept() const { return staged_ ? static_cast<std::int64_t>(w_.seen.data()[4]) : 0; }

  const std::uint32_t* left_ids() const { return w_.exact_ids.data(); }
  const R* left_bounds() const { return batch_.best; }

  std::int64_t candidates() const { return static_cast<std::int64_t>(w_.seen.data()[0]); }
  std::int64_t fallbacks() const { return fallbacks_; }
  std::int64_t nan_queries() const { return static_cast<std::int64_t>(w_.seen.data()[2]); }
  // Pairs of codes compared by a search by lists.
  std::int64_t pairs() const { return static_cast<std::int64_t>(w_.seen.data()[6]); }

 private:
  // Room for encoded queries, in tiles of `tile` where the codes are int8.
  cuda::QueryCodes reserve_queries(std::int64_t count, int tile);

  // One look at `rows` of the shard, every `step`-th, with the encoded queries in the workspace.
  cuda::Scan scan_of(std::int64_t rows, std::int64_t step, std::int64_t count,
                     const cuda::Lists& lists) const;

  // The answers as they are; with `exact` also which queries are not answered yet.
  void write(bool filtered, std::uint32_t* exact);

  std::int64_t overflown() const { return static_cast<std::int64_t>(w_.seen.data()[1]); }
  std::int64_t exact_count() const { return static_cast<std::int64_t>(w_.seen.data()[3]); }

  void prepare(const void* queries, std::int64_t stride, std::int64_t count);

  // Ends the search where codes of all values suit the queries better. @throws OffDirections
  void refuse_if_off();
  // Whether there may be such queries.
  bool minds_rests() const;

  cuda::Subset everyone() const { return {nullptr, batch_.count}; }

  // `fresh`: how many of the k nearest so far are expected among the candidates; all of them, by default.
  void rerank(const cuda::Subset& subset, std::int64_t expected, bool bound_only, bool more = false,
              std::int64_t fresh = -1);

  // The nearest of a sample spread over all rows, from one look at its pairs.
  void look_at_sample();

  // The nearest of every run of a sample, many queries at once; few have a smaller sample evaluated.
  void look_at_runs();

  void first_bound();

  // From rows of each query's own list.
  void bound_by_own_list();

  // Rows that no filter speaks for.
  void evaluate_special();

  // `open`: nothing is known yet, the first stage keeps all its rows.
  void filter_all(bool open);

  // The tiles of its stage that its blocks of queries look at.
  void choose_visits(cuda::CodeFilter& filter);
  /// Puts the queries of a filter in the order of their thresholds.
  void order_queries(cuda::CodeFilter& filter);

  // Which queries are not answered yet, and the counters.
  void look();

  // Every row for some queries, in pieces that always fit: of equal distances the lower rows came first.
  void exact(const cuda::Subset& subset);

  Shard& shard_;
  Workspace& w_;
  const Plan& plan_;
  std::int64_t list_k_;
  const Execution& execution_;
  cudaStream_t stream_;
  const cuda::ListedQueries listed_;
  int query_tile_ = 16;
  std::int64_t fallbacks_ = 0;
  bool staged_ = false;
  std::int64_t k_ = 0;
  std::int64_t* indices_ = nullptr;
  R* distances_ = nullptr;
  cuda::Batch<R> batch_{};
};

extern template class ShardSearch<float>;
extern template class ShardSearch<double>;

}  // namespace kith::brute_force
