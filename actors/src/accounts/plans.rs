//! What accounts may do by their plans: one for the process, which may be set anew.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use colloquy_model::account::Plan;

/// What basic and pro accounts may do, as config.toml gives it.
#[derive(Debug, Clone, Copy)]
pub struct PlanRates {
    /// How many requests a minute a key may send for long.
    pub rate_per_minute: u32,
    /// The most requests in any minute.
    pub burst_per_minute: u32,
    /// The most requests of an account in a calendar month; 0: no bound.
    pub monthly_quota: u64,
}

/// What config.toml says of the plans; an enterprise account has rates of its own.
#[derive(Debug, Clone, Copy)]
pub struct Plans {
    /// The rates of accounts with the basic plan.
    pub basic: PlanRates,
    /// The rates of accounts with the pro plan.
    pub pro: PlanRates,
}

static PLANS: ArcSwapOption<Plans> = ArcSwapOption::const_empty();

/// Makes these the plans' rates from the next request on.
pub fn set_plans(plans: Plans) {
    PLANS.store(Some(Arc::new(plans)));
}

/// What the settings give a plan; none where each of its accounts has its own.
pub(super) fn plan_rates(plan: Plan) -> Option<PlanRates> {
    let unset = PlanRates {
        rate_per_minute: 1,
        burst_per_minute: 1,
        monthly_quota: 0,
    };
    let plans = PLANS.load();
    match plan {
        Plan::Basic => Some(plans.as_ref().map_or(unset, |plans| plans.basic)),
        Plan::Pro => Some(plans.as_ref().map_or(unset, |plans| plans.pro)),
        Plan::Enterprise => None,
    }
}
