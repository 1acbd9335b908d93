/// @file
/// One type for every index, for programs that choose at run time (the command line, Python).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kith/brute_force.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"

namespace kith {

/// Parameters of any type of index; each type takes those it knows.
struct IndexParameters {
  Metric metric = Metric::sqeuclidean;
  Filter filter = Filter::automatic;  ///< brute_force
  std::int64_t leaf_size = 0;         ///< kd_tree, octree: most points a leaf; 0: the default

  IndexParameters() = default;
  IndexParameters(Metric m, Filter f, std::int64_t leaf = 0) : metric(m), filter(f), leaf_size(leaf) {}
  IndexParameters(const BruteForceParameters& p)  // NOLINT(google-explicit-constructor)
      : metric(p.metric), filter(p.filter) {}
};

/// A type-erased index. Cheap to copy; copies share the index.
class AnyIndex {
 public:
  /// Wraps any index class that has rows, dim, dtype, metric, search, search_into, save and memory_bytes.
  template <class Index>
  AnyIndex(std::string_view type, Index index)
      : self_(std::make_shared<Model<Index>>(std::string(type), std::move(index))) {}

  /// @param type "brute_force", "kd_tree", "octree"; index_types() lists them
  /// @throws InvalidArgument for an unknown type, and what the type's build throws
  static AnyIndex build(std::string_view type, const Dataset& dataset, const IndexParameters& parameters,
                        const Execution& execution = {});

  /// Opens a saved index of whatever type its header names.
  /// @throws IoError
  static AnyIndex load(const std::filesystem::path& path, const Execution& execution = {});

  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {}) const {
    return self_->search(queries, k, execution);
  }
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {}) const {
    return self_->search_into(queries, out, execution);
  }
  void save(const std::filesystem::path& path, const Execution& execution = {}) const {
    self_->save(path, execution);
  }
  const std::string& type() const noexcept { return self_->type; }
  std::int64_t rows() const noexcept { return self_->rows(); }
  std::int64_t dim() const noexcept { return self_->dim(); }
  Dtype dtype() const noexcept { return self_->dtype(); }
  Metric metric() const noexcept { return self_->metric(); }
  std::uint64_t memory_bytes() const noexcept { return self_->memory_bytes(); }

  /// What the trees offer beyond search, when it is one of them; else nullptr. Lives as long as this
  /// AnyIndex.
  const PointTree* point_tree() const noexcept {
    if (const auto* tree = get_if<KdTree>()) return tree;
    return get_if<Octree>();
  }

  /// The index itself when it is of that class, else nullptr; lives as long as this AnyIndex.
  template <class Index>
  const Index* get_if() const noexcept {
    const auto* model = dynamic_cast<const Model<Index>*>(self_.get());
    return model == nullptr ? nullptr : &model->index;
  }

 private:
  struct Concept {
    explicit Concept(std::string t) : type(std::move(t)) {}
    virtual ~Concept() = default;
    virtual Neighbors search(const DatasetView&, std::int64_t, const Execution&) const = 0;
    virtual SearchStatistics search_into(const DatasetView&, const NeighborsView&,
                                         const Execution&) const = 0;
    virtual void save(const std::filesystem::path&, const Execution&) const = 0;
    virtual std::int64_t rows() const = 0;
    virtual std::int64_t dim() const = 0;
    virtual Dtype dtype() const = 0;
    virtual Metric metric() const = 0;
    virtual std::uint64_t memory_bytes() const = 0;
    std::string type;
  };
  template <class Index>
  struct Model final : Concept {
    Model(std::string t, Index i) : Concept(std::move(t)), index(std::move(i)) {}
    Neighbors search(const DatasetView& q, std::int64_t k, const Execution& e) const override {
      return index.search(q, k, e);
    }
    SearchStatistics search_into(const DatasetView& q, const NeighborsView& out,
                                 const Execution& e) const override {
      return index.search_into(q, out, e);
    }
    void save(const std::filesystem::path& p, const Execution& e) const override { index.save(p, e); }
    std::int64_t rows() const override { return index.rows(); }
    std::int64_t dim() const override { return index.dim(); }
    Dtype dtype() const override { return index.dtype(); }
    Metric metric() const override { return index.metric(); }
    std::uint64_t memory_bytes() const override { return index.memory_bytes(); }
    Index index;
  };
  std::shared_ptr<const Concept> self_;
};

/// Names that AnyIndex::build accepts.
std::vector<std::string> index_types();

/// An index type and why it is the one.
struct IndexChoice {
  std::string index;
  std::string reason;
};

/// The type that answers a task soonest, its build included, by costs measured on one machine, or on one GPU
/// where `execution` names some (docs/which-index.md).
/// @param queries how many are expected; 0: many
IndexChoice choose_index(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                         Metric metric, const Execution& execution = {});

}  // namespace kith
