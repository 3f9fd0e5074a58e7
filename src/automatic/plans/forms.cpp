#include "forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "stepcast/strategy/plan.h"

namespace stepcast::automatic {
namespace {

// A value with its text in the space.
template <class T>
struct Choice {
  std::string text;
  T value;
};

// The choices of a dimension of the space. If the space lacks the dimension, the only choice is the
// job's own value, without a text.
template <class T, class Of>
std::vector<Choice<T>> choices(const search::Space& space, const char* key, const job::Job& base,
                               const search::JobLoader& loader, Of&& of) {
  const search::Dimension* d = space.find(key);
  if (d == nullptr) {
    return {{"", of(base)}};
  }
  std::vector<Choice<T>> out;
  for (const std::string& text : d->values) {
    const auto loaded = loader({fmt::format("{}={}", key, text)});
    if (const auto* job = std::get_if<job::Job>(&loaded)) {
      out.push_back({text, of(*job)});
    }
  }
  return out;
}

// Integers are parsed without loading a job: a single one might be refused.
std::vector<Choice<int>> sizes(const search::Space& space, const char* key, int own) {
  const search::Dimension* d = space.find(key);
  if (d == nullptr) {
    return {{"", own}};
  }
  std::vector<Choice<int>> out;
  for (const std::string& text : d->values) {
    out.push_back({text, static_cast<int>(search::integer_of(*d, text))});
  }
  return out;
}

Role tensor_role(const job::Parallelism& p) {
  using Use = Role::Use;
  return {p.tensor == 1         ? Use::any
          : p.sequence_parallel ? Use::sequence
                                : Use::tensor,
          Role::Experts::alike};
}

Role::Use context_use(const job::Parallelism& p) {
  return p.context_kind == job::ContextKind::a2a ? Role::Use::ulysses : Role::Use::context;
}

// One combination of the values that determine a mesh.
struct Degrees {
  Choice<int> tensor, context, pipeline, expert, chunks;
  Choice<bool> scattered;
  Choice<job::Sharding> sharding;
};

// The mesh of two axes that a job's degrees give; nullopt: they need more axes.
std::optional<Form> mesh_of(const job::Job& job, int data);

// Assigns experts to the nearest ranks first: tensor ranks unless they split experts, then context,
// then data. Returns false if the experts would use only part of an axis.
bool place_experts(const job::Parallelism& p, Form& form) {
  int left = p.expert;
  const bool tensor_inner = p.tensor > 1;
  for (int a = 1; a >= 0; --a) {
    const auto k = static_cast<std::size_t>(a);
    const int ranks = form.view.ranks[k];
    if (ranks == 1) {
      continue;
    }
    if (a == 1 && tensor_inner && p.expert_tensor > 1) {
      if (p.expert_tensor != p.tensor) {
        return false;
      }
      continue;  // experts are split by columns and rows like other products
    }
    if (left == 1) {
      form.roles[k].experts = a == 1 && tensor_inner ? Role::Experts::whole : Role::Experts::alike;
    } else if (left % ranks == 0) {
      form.roles[k].experts = Role::Experts::spread;
      left /= ranks;
    } else {
      return false;
    }
  }
  return left == 1;
}

std::optional<Form> mesh_of(const job::Job& job, int data) {
  const job::Parallelism& p = job.parallelism;
  Form out;
  out.stages = p.pipeline;
  out.virtual_stages = p.virtual_pipeline;
  out.sharding = p.sharding;
  out.roles[0].use = Role::Use::data;
  if (p.context > 1 && p.tensor == 1) {
    out.view = {{data, p.context}};
    out.roles[1].use = context_use(p);
  } else if (p.context > 1) {
    out.view = {{p.context, p.tensor}};
    out.roles = {Role{context_use(p)}, tensor_role(p)};
  } else if (p.tensor == 1 && p.expert > 1 && p.expert < data && data % p.expert == 0) {
    out.view = {{data / p.expert, p.expert}};
    out.roles[1].use = Role::Use::data;
  } else {
    out.view = {{data, p.tensor}};
    out.roles[1] = tensor_role(p);
  }
  if (job.model.moe && !place_experts(p, out)) {
    return std::nullopt;
  }
  return out;
}

class FormLister {
 public:
  FormLister(const search::Space& space, const job::Job& base, const search::JobLoader& loader,
             const std::vector<std::string>& fixed)
      : space_(space), base_(base), loader_(loader), fixed_(fixed) {
    const job::Parallelism& own = base.parallelism;
    tensors_ = sizes(space, "parallelism.tensor", own.tensor);
    contexts_ = sizes(space, "parallelism.context", own.context);
    pipelines_ = sizes(space, "parallelism.pipeline", own.pipeline);
    experts_ = sizes(space, "parallelism.expert", own.expert);
    micro_ = sizes(space, "workload.micro_batch", static_cast<int>(base.workload.micro_batch));
    chunks_ = sizes(space, "parallelism.virtual_pipeline", own.virtual_pipeline);
    const std::string key = "parallelism.virtual_pipeline=";
    for (const std::string& text : fixed) {
      if (text.starts_with(key)) {
        chunks_ = {{"", std::stoi(text.substr(key.size()))}};
      }
    }
    std::sort(chunks_.begin(), chunks_.end(),
              [](const auto& a, const auto& b) { return a.value < b.value; });
    scattered_ = choices<bool>(space, "parallelism.sequence_parallel", base, loader,
                               [](const job::Job& j) { return j.parallelism.sequence_parallel; });
    shardings_ = choices<job::Sharding>(space, "parallelism.sharding", base, loader,
                                        [](const job::Job& j) { return j.parallelism.sharding; });
    redos_ =
        choices<std::optional<Redo>>(space, "memory.recompute", base, loader,
                                     [](const job::Job& j) { return redo_of(j.memory.recompute); });
  }

  std::vector<Form> list() {
    for (const auto& t : tensors_) {
      for (const auto& c : contexts_) {
        for (const auto& p : pipelines_) {
          const int model_ranks = t.value * c.value * p.value;
          const int data = base_.cluster.ranks() / model_ranks;
          // Three purposes would need more than two axes.
          if (base_.cluster.ranks() % model_ranks != 0 ||
              (t.value > 1 && c.value > 1 && data > 1)) {
            continue;
          }
          each_of({t, c, p, {}, {}, {}, {}}, data);
        }
      }
    }
    return std::move(out_);
  }

 private:
  void each_of(Degrees d, int data) {
    for (const auto& e : experts_) {
      for (const auto& s : scattered_) {
        for (const auto& z : shardings_) {
          d.expert = e;
          d.scattered = s;
          d.sharding = z;
          add(d, data);
        }
      }
    }
  }

  std::vector<std::string> overrides_of(const Degrees& d) const {
    std::vector<std::string> out = fixed_;
    const auto set = [&](const char* key, const std::string& text) {
      if (!text.empty()) {
        out.push_back(fmt::format("{}={}", key, text));
      }
    };
    set("parallelism.tensor", d.tensor.text);
    set("parallelism.pipeline", d.pipeline.text);
    set("parallelism.virtual_pipeline", d.chunks.text);
    set("parallelism.context", d.context.text);
    set("parallelism.expert", d.expert.text);
    set("parallelism.sequence_parallel", d.scattered.text);
    set("parallelism.sharding", d.sharding.text);
    return out;
  }

  std::vector<std::string> overrides_of(const Degrees& d, const Choice<int>& micro) const {
    std::vector<std::string> out = overrides_of(d);
    if (!micro.text.empty()) {
      out.push_back(fmt::format("workload.micro_batch={}", micro.text));
    }
    return out;
  }

  // The mesh of the job, if it can run.
  std::optional<Form> checked(const std::vector<std::string>& overrides, int data) const {
    const auto loaded = loader_(overrides);
    const auto* job = std::get_if<job::Job>(&loaded);
    if (job == nullptr || std::holds_alternative<Infeasible>(strategy::resolve(*job))) {
      return std::nullopt;
    }
    return mesh_of(*job, data);
  }

  // True if this number of virtual stages is possible with the stages and micro-batches. Nothing
  // else that is listed affects that.
  bool interleaves(const Degrees& d, const Choice<int>& micro, int micro_batches, int data) {
    const auto [at, fresh] =
        interleaves_.try_emplace({d.pipeline.value, d.chunks.value, micro_batches}, false);
    if (fresh) {
      at->second = checked(overrides_of(d, micro), data).has_value();
    }
    return at->second;
  }

  void add(Degrees d, int data) {
    const std::int64_t batch = base_.workload.global_batch;
    std::optional<Form> mesh;  // the job is checked with the first micro-batch size that divides
    for (const auto& chunks : chunks_) {
      if (d.pipeline.value == 1 && &chunks != &chunks_.front()) {
        continue;  // interleaving needs more than one stage
      }
      d.chunks = chunks;
      for (const auto& m : micro_) {
        if (batch % (static_cast<std::int64_t>(m.value) * data) != 0) {
          continue;
        }
        const auto micro_batches = static_cast<int>(batch / (m.value * data));
        if (!mesh) {
          mesh = checked(overrides_of(d, m), data);
          if (!mesh && chunks.value == 1) {
            return;
          }
        }
        if (!mesh ||
            (chunks.value > 1 && d.pipeline.value > 1 && !interleaves(d, m, micro_batches, data))) {
          continue;
        }
        Form form = *mesh;
        form.micro_batch = m.value;
        form.micro_batches = micro_batches;
        form.virtual_stages = d.pipeline.value > 1 ? chunks.value : 1;
        add_redos(std::move(form), overrides_of(d, m));
      }
    }
  }

  void add_redos(Form form, const std::vector<std::string>& overrides) {
    for (const auto& r : redos_) {
      if (!r.value) {
        continue;
      }
      form.redo = *r.value;
      form.overrides = overrides;
      if (!r.text.empty()) {
        form.overrides.push_back(fmt::format("memory.recompute={}", r.text));
      }
      out_.push_back(form);
    }
  }

  const search::Space& space_;
  const job::Job& base_;
  const search::JobLoader& loader_;
  const std::vector<std::string>& fixed_;
  std::vector<Choice<int>> tensors_, contexts_, pipelines_, experts_, micro_, chunks_;
  std::vector<Choice<bool>> scattered_;
  std::vector<Choice<job::Sharding>> shardings_;
  std::vector<Choice<std::optional<Redo>>> redos_;
  std::map<std::tuple<int, int, int>, bool> interleaves_;
  std::vector<Form> out_;
};

}  // namespace

std::optional<Redo> redo_of(const job::Recompute& recompute) {
  switch (recompute.kind) {
    case job::Recompute::Kind::none:
      return Redo::none;
    case job::Recompute::Kind::selective:
      return Redo::selective;
    case job::Recompute::Kind::full:
      return Redo::full;
    default:
      return std::nullopt;
  }
}

std::vector<Form> forms_of(const search::Space& space, const job::Job& base,
                           const search::JobLoader& loader, const std::vector<std::string>& fixed) {
  return FormLister(space, base, loader, fixed).list();
}

}  // namespace stepcast::automatic
