//! What the people of the demo's shop say and write.

use super::any;

/// Its people: name, e-mail address, role.
pub(super) const PEOPLE: &[(&str, &str, &str)] = &[
    ("Grace Lindqvist", super::ADMIN, "admin"),
    ("Jonas Weber", "jonas@nordlicht.example", "agent"),
    ("Amina Haddad", "amina@nordlicht.example", "agent"),
    ("Marek Nowak", "marek@nordlicht.example", "agent"),
    ("Nora, the bot", "bot@nordlicht.example", "agent"),
];

const FIRST_NAMES: &[&str] = &[
    "Ada", "Björn", "Chiara", "Daan", "Élodie", "Fatima", "Giorgos", "Hanna", "Ivan", "Júlia",
    "Kaito", "Lena", "Miguel", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Søren", "Tomás",
    "Ulrike", "Vera", "Wanda", "Xenia", "Yusuf", "Zofia",
];
const LAST_NAMES: &[&str] = &[
    "Andersen",
    "Bianchi",
    "Costa",
    "Dubois",
    "Eriksson",
    "Fischer",
    "García",
    "Horváth",
    "Ito",
    "Jansen",
    "Kowalska",
    "Laine",
    "Moreau",
    "Novák",
    "Okafor",
    "Petrov",
    "Rossi",
    "Schneider",
    "Silva",
    "Yılmaz",
];
const CITIES: &[&str] = &[
    "Hamburg",
    "Göteborg",
    "Lyon",
    "Porto",
    "Kraków",
    "Utrecht",
    "Tartu",
    "Graz",
    "Bergen",
];
const PRODUCTS: &[&str] = &[
    "rain jacket",
    "two-person tent",
    "down sleeping bag",
    "hiking boots",
    "trail backpack",
    "gas stove",
    "head torch",
    "trekking poles",
    "merino shirt",
    "dry bag",
];

/// Conversations from the first words on: the customer begins, then an agent, in turns.
pub(super) const STORIES: &[&[&str]] = &[
    &[
        "Hello, my order {order} should have come on Tuesday. The tracking has not moved since. Can you see where it is?",
        "Good morning! I am sorry for the wait. I have asked the carrier and come back to you today.",
        "Thank you. I need the {product} on Saturday.",
        "Found it: it was sorted to the wrong depot. It is with you tomorrow before noon. I have taken the shipping off your bill.",
        "That is great service. Thanks!",
    ],
    &[
        "The zip of my {product} broke on its second day. I have a photo if you need one.",
        "That should not happen, sorry. No photo needed. Would you like a new one, or your money back?",
        "A new one, please. Same size.",
        "It leaves today under order {order}. Keep the old one or recycle it, as you like.",
    ],
    &[
        "Can I still change order {order}? I took the {product} in M and need an L.",
        "Yes, it has not left yet. I have changed it to L. The price is the same.",
        "Perfect, that was quick.",
    ],
    &[
        "How do I send back a gift? I do not have the bill.",
        "No bill needed: the order number is enough. Do you have it?",
        "It is {order}.",
        "Thank you. The label is in your inbox. The money goes back to whoever paid, or to a voucher for you. Which one?",
        "The voucher, please. It was from my aunt and she must not know …",
        "Our lips are sealed. The voucher is on its way.",
    ],
    &[
        "Do you ship to {city}? And how long does it take?",
        "We do: two to four working days, free from 60 euros on.",
    ],
    &[
        "I was charged twice for order {order}!",
        "I see two reservations and one charge. The other one disappears by itself within three days; if not, write here and I call the bank.",
        "OK, I will watch it.",
    ],
    &[
        "Is the {product} waterproof enough for a week of rain in Norway?",
        "For a week of rain: yes, with a 20,000 mm column. For a week of storm I would take the model above. Shall I compare the two for you?",
        "Please do.",
        "The larger one weighs 180 g more and costs 70 euros more, and its seams are taped. For Norway in September I would take it.",
        "Sold. Thank you for the honest words.",
    ],
    &[
        "Your site says the {product} is in stock, my cart says it is not. Which one is true?",
        "The cart. Somebody was a minute faster. It is back on Thursday: shall I keep one for you?",
        "Yes please!",
    ],
    &[
        "Please delete my account and everything you know about me.",
        "I have started that. It is done within 24 hours, and you get one last mail that says so.",
        "Thank you.",
    ],
    &[
        "I have lost the password and the mail does not come.",
        "It sits in the spam folder of your provider more often than not. I have sent it once more to {email}.",
        "There it is. Sorry to bother you!",
    ],
];

/// What customers ask beside.
pub(super) const QUESTIONS: &[&str] = &[
    "Is there any news?",
    "One more thing: can I get the bill with my company's name?",
    "Thanks! And is there a discount for the second one?",
    "It has come. The box is dented, but what is in it is fine.",
    "Sorry, I am in a meeting. I answer tonight.",
];

/// What agents say beside.
pub(super) const ANSWERS: &[&str] = &[
    "I am on it and write again within the hour.",
    "The bill with your company's name is in your inbox now.",
    "For the second one you get ten percent: the code is NORD10.",
    "Take your time. I keep this open for you.",
    "That is done. Is there anything else?",
];

/// Titles of the documents.
pub(super) const DOCUMENTS: &[&str] = &[
    "Return policy",
    "Shipping times by country",
    "Warranty and repairs",
    "Tone of voice",
    "Onboarding for new agents",
    "Escalation paths",
    "Refunds step by step",
    "Size guide",
    "Caring for down",
    "Waterproofing explained",
    "Gift vouchers",
    "Black Friday runbook",
    "Carrier contacts",
    "Macros for chat",
    "Holiday calendar",
    "Data protection requests",
    "Payment methods",
    "Fraud signals",
    "Store opening hours",
    "Product recall checklist",
    "Translation glossary",
    "Quality scorecard",
    "Night shift handbook",
    "Bot answers to review",
    "Weekly report",
    "Partner programme",
    "Accessibility notes",
    "Frequently asked questions",
];

/// What is said beside a document's lines.
pub(super) const COMMENTS: &[&str] = &[
    "Is this still true for Norway?",
    "Could we say this in one sentence?",
    "Legal has seen this and is fine with it.",
    "Agents ask about this every week: thank you for writing it down.",
];

/// Why a version was made.
pub(super) fn message(edition: usize) -> &'static str {
    match edition {
        1 => "Add the exceptions",
        2 => "Shorter, after the first week of use",
        3 => "New carrier",
        _ => "Spelling",
    }
}

const PARTS: &[&str] = &[
    "## Exceptions\n\nGoods that were made to order, and everything that was worn outdoors for more than a day. Ask before you say no.\n",
    "## Who decides\n\n| amount | who |\n|---|---|\n| up to 50 euros | every agent |\n| up to 500 euros | the shift's lead |\n| above | Grace |\n",
    "## Carriers\n\n1. Nordpost for everything up to 20 kg\n2. Spedition Elbe for tents above that\n\n> When a parcel has not moved for **three** days it counts as lost.\n",
    "## Words\n\n- [x] plain sentences\n- [x] no blame\n- [ ] a link to this page in each answer\n",
];

/// A document's text in this edition.
pub(super) fn page(title: &str, edition: usize) -> String {
    let mut text = format!(
        "# {title}\n\nThis page is for everybody who answers customers. It says what holds *today*; what held before stands in its history.\n\n## In short\n\n- Answer within the hour, also if the answer is that you do not know yet.\n- One conversation, one owner.\n- What costs less than 20 euros is decided by whoever reads it first.\n\n"
    );
    for part in PARTS.iter().take(edition) {
        text.push_str(part);
        text.push('\n');
    }
    text.push_str("---\n\nLast looked at by the team lead.\n");
    text
}

/// The same with another paragraph near its head: it goes together with what others write below.
pub(super) fn side_line(title: &str, edition: usize) -> String {
    page(title, edition).replace(
        "- One conversation, one owner.\n",
        "- One conversation, one owner; at the season's peak two.\n",
    )
}

/// The same line changed in another way: it has to be decided which one holds.
pub(super) fn clash(title: &str, edition: usize) -> String {
    page(title, edition).replace(
        "- One conversation, one owner.\n",
        "- One conversation, one owner, named in its first answer.\n",
    )
}

/// A customer, and what its story is about.
pub(super) struct Told {
    pub(super) customer: String,
    pub(super) email: String,
    pub(super) city: &'static str,
    pub(super) order: String,
    product: &'static str,
}

impl Told {
    pub(super) fn new() -> Self {
        let one = |all: &'static [&'static str]| any(all).copied().unwrap_or_default();
        let (first, last) = (one(FIRST_NAMES), one(LAST_NAMES));
        let number = colloquy_model::random::u64() % 90_000 + 10_000;
        Told {
            customer: format!("{first} {last}"),
            email: format!("customer{number}@example.com"),
            city: one(CITIES),
            order: format!("NO-{number}"),
            product: one(PRODUCTS),
        }
    }

    /// The words with what they are about put in.
    pub(super) fn words(&self, words: &str) -> String {
        words
            .replace("{order}", &self.order)
            .replace("{product}", self.product)
            .replace("{city}", self.city)
            .replace("{email}", &self.email)
    }
}
