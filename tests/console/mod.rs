//! The console, as people use it: over plain HTTP where a form is enough, in Chromium where scripts
//! and eyes count.

mod analytics;
mod cookies;
mod demo;
mod figures;
mod files;
mod guards;
mod guesses;
mod inbox;
mod invited;
mod looks;
mod passwords;
mod people;
mod settings;
mod usage;
mod without_script;

use serde_json::Value;

use super::support::{Account, Browser, Person, Server, console::PASSWORD};

/// The e-mail address of a user.
async fn email_of(account: &Account, user: &str) -> String {
    let user = account
        .live()
        .get(&format!("/v1/users/{user}"))
        .await
        .expect(200);
    user.id("email")
}

/// A browser in which a new user of the account is signed in; with the user's identifier.
async fn browser_of(server: &Server, account: &Account, role: &str) -> (Browser, String) {
    let user = Person::user(account, role).await.user;
    let browser = Browser::open(server).await;
    browser
        .sign_in(&email_of(account, &user).await, PASSWORD)
        .await;
    (browser, user)
}

/// The texts of a conversation's messages, oldest first.
async fn texts(account: &Account, conversation: &str) -> Vec<String> {
    let path = format!("/v1/conversations/{conversation}/messages?limit=100");
    let messages = account.live().get(&path).await.expect(200);
    let text = |message: &Value| message["content"].as_str().unwrap().to_owned();
    messages.data().iter().map(text).collect()
}
