// The search of /docs: shows the operations that have all the words, as one types.
'use strict';

const form = document.getElementById('search');
const field = document.getElementById('words');
const told = form.querySelector('output');
const links = new Map(Array.from(document.querySelectorAll('nav li a'), (link) => [link.hash.slice(1), link]));
const sections = Array.from(document.querySelectorAll('main > section'), (section) => ({
  section,
  articles: Array.from(section.querySelectorAll('article'), (article) => ({
    article,
    link: links.get(article.id),
    words: [section.querySelector('h2'), ...article.querySelectorAll('h3, .route')]
      .map((part) => part.textContent).concat(article.id).join(' ').toLowerCase(),
  })),
}));
const all = links.size;

function search() {
  const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const { section, articles } of sections) {
    let shown = 0;
    for (const { article, link, words } of articles) {
      const fits = wanted.every((word) => words.includes(word));
      article.hidden = !fits;
      shown += fits;
      if (link) {
        link.parentElement.hidden = !fits;
        found += fits;
      }
    }
    section.hidden = shown === 0;
  }
  for (const list of document.querySelectorAll('nav ul')) {
    const empty = !list.querySelector('li:not([hidden])');
    list.hidden = empty;
    list.previousElementSibling.hidden = empty;
  }
  if (wanted.length === 0) {
    told.textContent = '';
  } else if (found === 0) {
    told.textContent = `Nothing found for “${field.value.trim()}”.`;
  } else {
    told.textContent = `${found} of ${all} operations`;
  }
}

field.addEventListener('input', search);
form.addEventListener('submit', (event) => event.preventDefault());
document.addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, textarea, select');
  if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === 'Escape' && typing === field) {
    field.value = '';
    search();
  }
});
// A link leads to what the search may have hidden.
window.addEventListener('hashchange', () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (place && place.closest('[hidden]')) {
    field.value = '';
    search();
    place.scrollIntoView();
  }
});
// On a phone the contents would stand before everything else.
if (window.matchMedia('(max-width: 52rem)').matches && !location.hash) {
  document.querySelector('nav details').open = false;
}
form.hidden = false;
search();
