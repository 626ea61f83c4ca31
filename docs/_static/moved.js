// An address of the time when all sections were on one page leads on: what has
// its id is now the link to the section, which is all there is without scripts.
{
  // A server could not do this: it never sees what follows the "#".
  function follow() {
    const place = document.getElementById(location.hash.slice(1));
    if (place?.matches(".moved")) {
      location.replace(place.querySelector("a").href);
    }
  }

  follow();
  addEventListener("hashchange", follow);
}
