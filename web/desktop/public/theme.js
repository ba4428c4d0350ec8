// Sets the theme before anything is drawn. src/lib/theme.ts changes it later.
(function () {
  var chosen = null;
  try { chosen = localStorage.getItem('everloop.theme'); } catch { /* storage is off: the system's theme */ }
  var dark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.classList.toggle('dark', dark);
})();
