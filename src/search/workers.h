// Everyone who evaluates for rank 0: its own threads, and those of the other processes.
#pragma once

#include <memory>

#include "evaluation.h"
#include "stepcast/search/world.h"

namespace stepcast::search {

class Workers {
 public:
  // `world` may be null: this process alone.
  Workers(World* world, int threads, Objective objective, const JobLoader& loader,
          const std::filesystem::path& data_directory);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Orders that keep all busy.
  int capacity() const;
  int in_flight() const;
  // To whoever has least to do.
  void submit(Order order);
  // One answer; nullopt when none comes within a fraction of a second.
  std::optional<Answer> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::search
