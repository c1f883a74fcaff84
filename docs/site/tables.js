// A table that is wider than the page scrolls. Let the keyboard reach it, or its last columns are for a mouse only.
const article = document.querySelector("article");

const reach = () => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) {
    frame.tabIndex = frame.scrollWidth > frame.clientWidth ? 0 : -1;
  }
};

new ResizeObserver(reach).observe(article);
new MutationObserver(reach).observe(article, {childList: true, subtree: true}); // the theme adds the frames
