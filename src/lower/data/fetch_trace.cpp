#include "fetch_trace.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>

#include "../stage/feature.h"
#include "../stage/stage_state.h"
#include "../tensors/unit_tensors.h"

namespace stepcast::lower {

namespace {

struct Module {
  FetchSpot at;
  std::vector<std::size_t> arrays;
  std::optional<FetchSpot> saved;  // until there autograd saves what it reads
  bool unhooked = false;    // its input has no gradient: nothing runs behind its backward pass
  bool again = false;       // called by a checkpoint's recomputation
  bool ends_again = false;  // not a call: the end of the backward pass that asked for it
};

struct Traced {
  std::int64_t elements = 0;
  bool expert = false;
  bool matrix = false;
  bool frozen = false;
  bool persistent = false;    // never given up
  bool whole = false;         // gathered, or on its way
  bool carried = false;       // whole from the micro-batch before
  bool unhooked = false;      // a module without a hook behind its backward pass reads it
  std::int64_t fetched = -1;  // module for which it was asked last; -1: none yet
  std::size_t gather = 0;     // that brought it
  std::size_t number = 0;     // in that gather
};

// The modules of a micro-batch as their hooks run. `applied`: the whole model and the model without
// its head are modules as well, and so is the rotary table behind the embedding.
class Modules {
 public:
  explicit Modules(const Stage& stage) : units_(stage.units.front()) {
    for (const Unit& unit : units_) {
      first_.push_back(count_);
      count_ += arrays_of_modules(*unit.passes).size();
      for (const Again& again : unit.again) {
        again_.insert(again.unit);
      }
    }
  }

  std::vector<Module> write() {
    call(0, FetchPass::forward, 0);
    call(0, FetchPass::forward, 0);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      forward(u, u, FetchPass::forward);
      if (units_[u].kind == Unit::Kind::embedding) {
        const auto behind = std::max<std::size_t>(units_[u].passes->operators, 1) - 1;
        call(u, FetchPass::forward, behind);
      }
    }
    call(units_.size() - 1, FetchPass::backward, 0);
    for (std::size_t u = units_.size(); u-- > 0;) {
      backward(u);
    }
    return std::move(out_);
  }

  std::size_t first(std::size_t unit) const { return first_[unit]; }

 private:
  Module& call(std::size_t unit, FetchPass pass, std::size_t place) {
    const bool unhooked = pass == FetchPass::backward && units_[unit].kind == Unit::Kind::embedding;
    out_.push_back({{unit, pass, static_cast<std::uint16_t>(place)}, {}, {}, unhooked});
    return out_.back();
  }

  // Products save views of their weights for their backward pass, where nothing checkpoints them.
  std::optional<FetchSpot> saved(std::size_t of, FetchPass pass, std::size_t place) const {
    if (pass == FetchPass::backward || units_[of].kind == Unit::Kind::embedding ||
        (pass == FetchPass::forward && again_.count(of) > 0)) {
      return {};
    }
    const std::size_t operators = std::max<std::size_t>(units_[of].passes->operators, 1);
    return FetchSpot{of, FetchPass::backward, static_cast<std::uint16_t>(operators - 1 - place)};
  }

  void call(std::size_t unit, std::size_t of, FetchPass pass, const ModuleCall& module) {
    const std::size_t operators = std::max<std::size_t>(units_[of].passes->operators, 1);
    Module& m =
        call(unit, pass, pass == FetchPass::backward ? operators - 1 - module.place : module.place);
    for (std::size_t k = 0; k < module.arrays; ++k) {
      // The table of an output projection that shares it is the embedding's.
      const std::size_t array = module.first_array + k;
      const bool shared = array >= arrays_of_modules(*units_[of].passes).size();
      m.arrays.push_back(shared ? first_.front() : first_[of] + array);
    }
  }

  void forward(std::size_t unit, std::size_t of, FetchPass pass) {
    const auto& calls = units_[of].passes->modules.calls;
    // A checkpoint runs a layer's forward function, whose own hooks stay outside of it
    // (transformers 5.23, modeling_layers.py:84).
    const bool layer = units_[of].kind == Unit::Kind::layer && calls.size() > 1;
    for (std::size_t m = pass == FetchPass::again && layer ? 1 : 0; m < calls.size(); ++m) {
      call(unit, of, pass, calls[m]);
      out_.back().saved = saved(of, pass, calls[m].place);
      out_.back().again = pass == FetchPass::again;
    }
  }

  // A checkpoint runs its modules again when the first operator asks for a tensor that it saved:
  // behind the hooks that run ahead of that one's backward pass.
  void backward(std::size_t u) {
    bool again = !units_[u].again.empty();
    bool model = units_[u].kind == Unit::Kind::head && units_.size() > 1;
    const auto& calls = units_[u].passes->modules.calls;
    each_backward(calls, [&](const ModuleCall& module) {
      if (model && &module == &calls.front() && calls.size() > 1) {
        call(u, u, FetchPass::backward, {module.place, 0, 0, 0});  // it ends with its norm
      }
      if (!again) {
        call(u, u, FetchPass::backward, module);
        return;
      }
      call(u, u, FetchPass::again, module);
      out_.back().at.place = 0;
      if (module.arrays > 0) {
        again = false;
        for (const Again& other : units_[u].again) {
          forward(u, other.unit, FetchPass::again);
        }
        call(u, u, FetchPass::backward, {module.place, 0, 0, 0});
        out_.back().ends_again = true;
      }
    });
  }

  const std::vector<Unit>& units_;
  std::vector<std::size_t> first_;
  std::size_t count_ = 0;
  std::set<std::size_t> again_;  // units whose passes are recomputed
  std::vector<Module> out_;
};

class Coordinator {
 public:
  // `traced`: the order of the modules is known.
  Coordinator(const Stage& stage, std::vector<Module> modules, bool traced)
      : policy_(stage.plan.parameter_gather), traced_(traced), modules_(std::move(modules)) {
    for (const Unit& unit : stage.units.front()) {
      for (const Array& a : arrays_of_modules(*unit.passes)) {
        const bool persistent = a.elements <= policy_.persistent_elements;
        Traced& one = arrays_.emplace_back();
        one.elements = a.elements;
        one.expert = a.expert;
        one.matrix = a.rows > 0;
        one.frozen = a.frozen;
        one.persistent = one.whole = persistent;
      }
    }
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      for (const std::size_t a : modules_[m].arrays) {
        queue_.emplace_back(a, static_cast<std::int64_t>(m));
        arrays_[a].unhooked = arrays_[a].unhooked || modules_[m].unhooked;
      }
    }
    room_ = policy_.live_elements > 0 ? policy_.live_elements
                                      : std::numeric_limits<std::int64_t>::max() / 2;
  }

  std::vector<FusedGather> play() {
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      if (modules_[m].ends_again) {
        release_recomputed(m);
        continue;
      }
      fetch(m);
      release(m);
    }
    // What is left goes with the micro-batch (stage3.py: partition_all_parameters).
    FetchSpot end = modules_.back().at;
    end.place = kPassEnd;
    for (Traced& a : arrays_) {
      if (a.whole && !a.persistent && !a.carried) {
        out_[a.gather].arrays[a.number].released = end;
        const bool left = traced_ && policy_.leaves_leftovers && a.unhooked;
        out_[a.gather].arrays[a.number].left = left;
        if (left) {
          left_.push_back(static_cast<std::size_t>(&a - arrays_.data()));
        }
      }
    }
    return std::move(out_);
  }

  // Behind play().
  const std::vector<std::size_t>& left() const { return left_; }
  const std::vector<FetchSpot>& carried_released() const { return carried_released_; }
  // Ahead of it.
  void carry(const std::vector<std::size_t>& arrays) {
    for (const std::size_t id : arrays) {
      arrays_[id].whole = arrays_[id].carried = true;
    }
  }

 private:
  void gather(const std::vector<std::size_t>& arrays, std::size_t m, bool on_demand) {
    FusedGather made;
    made.issued = modules_[m].at;
    made.on_demand = on_demand;
    for (const std::size_t id : arrays) {
      Traced& a = arrays_[id];
      if (!a.whole) {
        a.whole = true;
        a.gather = out_.size();
        a.number = made.arrays.size();
        whole_ += a.elements;
        made.arrays.push_back({a.elements, a.expert, {}});
      }
    }
    if (!made.arrays.empty()) {
      out_.push_back(std::move(made));
      read_.push_back(false);
    }
  }

  // fetch_sub_module: what the module needs, then what the next ones need until the bucket is full.
  void fetch(std::size_t m) {
    const auto at = static_cast<std::int64_t>(m);
    gather(modules_[m].arrays, m, true);
    for (const std::size_t id : modules_[m].arrays) {
      if (modules_[m].again && arrays_[id].frozen) {
        recomputed_.push_back(id);
      }
    }
    std::size_t due = 0;  // parameters that no module before this one asked for
    for (const std::size_t id : modules_[m].arrays) {
      Traced& a = arrays_[id];
      if (!a.persistent && !a.carried && !read_[a.gather]) {
        read_[a.gather] = true;
        out_[a.gather].used = modules_[m].at;
      }
      due += a.fetched < at ? 1 : 0;
    }
    for (; due > 0 && !queue_.empty(); --due) {
      arrays_[queue_.front().first].fetched = queue_.front().second;
      queue_.pop_front();
    }
    const bool ahead = traced_ && policy_.forward_prefetch == Prefetch::explicit_;
    const std::int64_t bucket =
        ahead ? std::min(room_ - whole_, policy_.prefetch_elements) : std::int64_t{0};
    std::vector<std::size_t> next;
    for (std::int64_t taken = 0; taken < bucket && !queue_.empty(); queue_.pop_front()) {
      const auto [id, user] = queue_.front();
      Traced& a = arrays_[id];
      a.fetched = std::max(a.fetched, user);
      if (!a.whole && std::find(next.begin(), next.end(), id) == next.end()) {
        next.push_back(id);
        taken += a.elements;
      }
    }
    gather(next, m, false);
  }

  // release_sub_module: unless it was asked for again already, or is read again within the reuse
  // distance. Without a trace, whatever the module read.
  void release(std::size_t m) {
    if (policy_.leaves_leftovers && modules_[m].unhooked) {
      return;
    }
    const auto next = static_cast<std::int64_t>(m) + 1;
    for (const std::size_t id : modules_[m].arrays) {
      Traced& a = arrays_[id];
      const bool stays = traced_ && (a.fetched > next || read_again(id, m + 1));
      if (a.persistent || !a.whole || stays) {
        continue;
      }
      a.whole = false;
      whole_ -= a.elements;
      if (a.carried) {
        a.carried = false;
        carried_released_.push_back(modules_[m].at);
        continue;
      }
      const bool kept = policy_.kept_by_autograd && a.matrix && modules_[m].saved;
      out_[a.gather].arrays[a.number].released = kept ? *modules_[m].saved : modules_[m].at;
    }
  }

  // Frozen parameters that a recomputation asked for are those of the module whose backward pass
  // began it, and go with that, whoever reads them next (since 0.19.3,
  // partitioned_param_coordinator.py:393, :503).
  void release_recomputed(std::size_t m) {
    for (const std::size_t id : recomputed_) {
      Traced& a = arrays_[id];
      if (!policy_.leaves_leftovers && a.whole && !a.persistent && !a.carried) {
        a.whole = false;
        whole_ -= a.elements;
        out_[a.gather].arrays[a.number].released = modules_[m].at;
      }
    }
    recomputed_.clear();
  }

  bool read_again(std::size_t id, std::size_t from) const {
    std::int64_t passed = 0;
    for (std::size_t m = from; m < modules_.size() && passed < policy_.reuse_elements; ++m) {
      for (const std::size_t other : modules_[m].arrays) {
        if (other == id) {
          return true;
        }
        passed += arrays_[other].elements;
      }
    }
    return false;
  }

  const strategy::ParameterGather& policy_;
  const bool traced_;
  std::vector<Module> modules_;
  std::vector<Traced> arrays_;
  std::deque<std::pair<std::size_t, std::int64_t>> queue_;  // arrays and the modules that read them
  std::int64_t room_ = 0;
  std::int64_t whole_ = 0;  // elements
  std::vector<FusedGather> out_;
  std::vector<bool> read_;  // by gather
  std::vector<std::size_t> left_;
  std::vector<std::size_t> recomputed_;  // frozen arrays, by the recomputation under way
  std::vector<FetchSpot> carried_released_;
};

}  // namespace

std::vector<FusedGather> trace_fetches(const Stage& stage) {
  return Coordinator(stage, Modules(stage).write(), true).play();
}

LaterFetches later_fetches(const Stage& stage) {
  Coordinator before(stage, Modules(stage).write(), true);
  static_cast<void>(before.play());
  Coordinator later(stage, Modules(stage).write(), true);
  later.carry(before.left());
  LaterFetches out;
  out.gathers = later.play();
  out.released = later.carried_released();
  return out;
}

std::vector<FusedGather> untraced_fetches(const Stage& stage) {
  return Coordinator(stage, Modules(stage).write(), false).play();
}

}  // namespace stepcast::lower
