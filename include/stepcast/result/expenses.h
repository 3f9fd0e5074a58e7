// What a run costs, by what the money is for: the catalogue's currency.
#pragma once

namespace stepcast::result {

struct Expenses {
  double rent = 0;          // of what is rented; all that follows is of what is bought
  double depreciation = 0;  // the run's share of the purchase, linear over the lifetime and the utilisation
  double interest = 0;      // on the capital bound, half of the purchase on average
  double electricity = 0;   // of the machines at work for this run, PUE included
  double colocation = 0;    // space and cooling by the highest power
  double staff = 0;
  double sum() const { return rent + depreciation + interest + electricity + colocation + staff; }
};

}  // namespace stepcast::result
