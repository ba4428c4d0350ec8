// The languages of cronstrue come without types; each adds itself to the package.
declare module 'cronstrue/locales/*';
