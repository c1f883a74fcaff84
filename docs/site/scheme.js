// A picture of the console has a light and a dark form. Show the one of the scheme that the reader chose here; the
// browser alone would take the one of the system.
const SOURCE = 'source[media="(prefers-color-scheme: dark)"]';

for (const source of document.querySelectorAll(SOURCE)) {
  const follow = () => {
    source.media = document.body.dataset.mdColorScheme === "slate" ? "all" : "not all";
  };
  new MutationObserver(follow).observe(document.body, {attributeFilter: ["data-md-color-scheme"]});
  follow();
}
