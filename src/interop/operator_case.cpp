#include "stepcast/interop/operator_case.h"

#include "fields.h"

namespace stepcast::interop {

std::optional<OperatorCase> operator_case(const RowConfiguration& row) {
  const Fields fields(&row.fields);
  if (fields["level"].text() != "op" || !fields["kernel"].present()) {
    return std::nullopt;
  }
  OperatorCase out;
  out.kernel = fields["kernel"].text();
  out.provider = fields["provider"].text();
  out.mode = fields["mode"].text();
  out.gpu = fields["gpu"].text();
  const text::Value config = text::parse_json(fields["config"].text(), "config");
  bool stated = false;
  for (const auto& entry : config.entries) {
    const Fields value(&entry.value);
    if (entry.key == "dtype") {
      stated = true;
      out.dtype = contains(value.text(), "float32") ? job::DType::fp32 : job::DType::bf16;
    } else if (value.present() && !value.is_text() && entry.key != "eps") {
      out.sizes[entry.key] = value.integer_or(0);
    }
  }
  // Liger's cross-entropy benchmark makes fp32 logits; those that name no type otherwise run in
  // bf16.
  if (!stated && out.kernel == "cross_entropy") {
    out.dtype = job::DType::fp32;
  }
  if (const auto x = fields["x"].number()) {
    out.sizes[fields["x_name"].text()] = static_cast<std::int64_t>(*x);
  }
  return out;
}

}  // namespace stepcast::interop
