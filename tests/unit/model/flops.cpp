// FLOPs of a step by each published convention.
#include "catch.hpp"
#include "models.h"
#include "stepcast/model/count.h"

using namespace stepcast;
using model::FlopConvention;

TEST_CASE("For a GPT Megatron's count is Korthikanti's formula") {
  const auto m = test::gpt("gpt-175b", 96, 12288, 96, 51200, 2048);
  const double ours = model::step_flops(m, 2048, 64, FlopConvention::megatron_full).count();
  CHECK(ours == Approx(model::step_flops(m, 2048, 64, FlopConvention::korthikanti_model).count())
                    .epsilon(1e-12));
  // Attention halved: 12 B L s^2 h instead of 12 * 2 / 2; the two counts differ by 6 B L s^2 h.
  const double causal = model::step_flops(m, 2048, 64, FlopConvention::megatron_causal).count();
  CHECK(ours - causal == Approx(6.0 * 64 * 96 * 2048.0 * 2048.0 * 12288).epsilon(1e-12));
}

TEST_CASE("SC21's hardware count adds one forward pass of the layers") {
  const auto m = test::gpt("gpt-1t", 128, 25600, 160, 51200, 2048);
  const double hardware = model::step_flops(m, 2048, 3072, FlopConvention::sc21_hardware).count();
  const double needed = model::step_flops(m, 2048, 3072, FlopConvention::sc21_model).count();
  const double logits = 6.0 * 3072 * 2048 * 25600.0 * 51200;
  CHECK(hardware == Approx((needed - logits) * 4 / 3 + logits).epsilon(1e-12));
  // Table 1 of arXiv 2104.04473: 3072 GPUs at 163 TFLOP/s give 502 PFLOP/s; training on 450 B
  // tokens then takes 84 days (section 5.1).
  const double steps = 450e9 / (3072.0 * 2048.0);
  CHECK(steps * hardware / 502e15 / 86400 == Approx(84).epsilon(0.02));
}

TEST_CASE("PaLM's count takes the vocabulary matrix once or twice") {
  // torchtitan, Llama-3 8B, sequence 8192: 6 (N - input table) + 12 L a d s per token.
  const auto m = test::llama3_8b();
  const double table = 128256.0 * 4096;
  const double attention = 12.0 * 32 * 4096 * 8192;
  CHECK(model::step_flops(m, 8192, 1, FlopConvention::palm).count() ==
        Approx(8192 * (6 * (8030261248.0 - table) + attention)).epsilon(1e-12));
  CHECK(model::step_flops(m, 8192, 1, FlopConvention::palm_both_embeddings).count() ==
        Approx(8192 * (6 * 8030261248.0 + attention)).epsilon(1e-12));
  auto tied = m;
  tied.tied_embeddings = true;
  CHECK(model::step_flops(tied, 8192, 1, FlopConvention::palm) ==
        model::step_flops(m, 8192, 1, FlopConvention::palm));
}

TEST_CASE("On a frozen base AutoModel counts two of three passes") {
  // Its own formula of Llama-3 8B (nemo-automodel 0.7.0, components/utils/flops_utils.py:65) gives
  // 4.8249e10 a token at 4,096; adapters of rank 8 have less than a hundredth of its parameters.
  job::Job job;
  job.model = test::llama3_8b();
  job.workload.sequence_length = 4096;
  job.workload.global_batch = 32;
  const auto count = [&](FlopConvention convention) {
    return model::step_flops(job, convention).count() / (32 * 4096.0);
  };
  CHECK(count(FlopConvention::megatron_causal_frozen) == count(FlopConvention::megatron_causal));
  CHECK(count(FlopConvention::megatron_causal) == Approx(4.8249e10).epsilon(1e-3));
  job.workload.finetune.kind = job::Finetune::Kind::lora;
  job.workload.finetune.rank = 8;
  job.workload.finetune.targets = {"q", "k", "v", "o", "up", "down"};
  const double whole = count(FlopConvention::megatron_causal);
  CHECK(whole == Approx(4.8249e10).epsilon(1e-3));
  const double frozen = count(FlopConvention::megatron_causal_frozen);
  CHECK(frozen > whole * 2 / 3);
  CHECK(frozen < whole * 2.01 / 3);
}

TEST_CASE("Megatron's count of Llama-3 70B") {
  // Computed by hand: per token 2 * (80 layers of 2 h^2 + 2 h 1024 + 3 h f, and h V) + 80 * 2 * 2 *
  // s * h / 2, in three passes.
  const double h = 8192;
  const double layer = 2 * h * h + 2 * h * 1024 + 3 * h * 28672;
  const double token = 3 * (2 * (80 * layer + h * 128256) + 80 * 2 * 8192 * h);
  CHECK(model::step_flops(test::llama3_70b(), 8192, 512, FlopConvention::megatron_causal).count() ==
        Approx(512 * 8192 * token).epsilon(1e-12));
}
