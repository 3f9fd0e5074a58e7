#include "parameter_formats.h"

namespace stepcast::lower {
namespace {

double bytes_of_elements(const Elements& elements, bool expert, double product, double other) {
  const auto narrow = static_cast<double>(expert ? elements.narrow_expert : elements.narrow_dense);
  const auto all = static_cast<double>(expert ? elements.expert : elements.dense);
  return narrow * product + (all - narrow) * other;
}

// A format of weights that products in fewer bits read.
bool below_activations(const strategy::Plan& plan, DType format) {
  const double own = bytes_per_element(plan.style.dtype);
  return bytes_per_element(format) < own && bytes_per_element(plan.precision.products) < own;
}

double width_in(const strategy::Plan& plan, DType format, bool product) {
  return bytes_per_element(below_activations(plan, format) && !product ? plan.style.dtype : format);
}

}  // namespace

bool stands_in_few_bits(const strategy::Plan& plan) {
  return below_activations(plan, plan.precision.parameters);
}

double standing_width(const strategy::Plan& plan, bool product) {
  return width_in(plan, plan.precision.parameters, product);
}

double frozen_width(const strategy::Plan& plan, bool product) {
  return width_in(plan, plan.precision.frozen, product);
}

double gathered_width(const strategy::Plan& plan, bool product) {
  const bool narrow =
      product && stands_in_few_bits(plan) && plan.precision.products != DType::mxfp8;
  return bytes_per_element(narrow ? plan.precision.parameters : plan.style.dtype);
}

double standing_bytes(const strategy::Plan& plan, const Elements& elements, bool expert) {
  return bytes_of_elements(elements, expert, standing_width(plan, true),
                           standing_width(plan, false));
}

double gathered_bytes(const strategy::Plan& plan, const Elements& elements, bool expert) {
  return bytes_of_elements(elements, expert, gathered_width(plan, true),
                           gathered_width(plan, false));
}

}  // namespace stepcast::lower
