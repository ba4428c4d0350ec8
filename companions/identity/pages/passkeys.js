// Adds passkeys to the account page and to the sign-in page.
'use strict';
(() => {
  if (!globalThis.PublicKeyCredential) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

  const call = async (path, body) => {
    const answer = await fetch(`/api/v1/auth/passkeys/${path}`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    return said;
  };

  // options has the binary fields of what the service sent as the browser wants them.
  const options = ({ publicKey }) => {
    const listed = (list) => (list ?? []).map((one) => ({ ...one, id: bytes(one.id) }));
    return {
      ...publicKey,
      challenge: bytes(publicKey.challenge),
      ...(publicKey.user ? { user: { ...publicKey.user, id: bytes(publicKey.user.id) } } : {}),
      ...(publicKey.excludeCredentials ? { excludeCredentials: listed(publicKey.excludeCredentials) } : {}),
      ...(publicKey.allowCredentials ? { allowCredentials: listed(publicKey.allowCredentials) } : {}),
    };
  };

  // answered is a credential as the service reads it.
  const answered = (credential) => {
    const response = {};
    for (const field of ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']) {
      if (credential.response[field]) response[field] = text(credential.response[field]);
    }
    if (credential.response.getTransports) response.transports = credential.response.getTransports();
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response, clientExtensionResults: {} };
  };

  const on = (id, act) => {
    const form = document.getElementById(id);
    if (!form) return;
    form.hidden = false;
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const error = form.querySelector('[role=alert]');
      error.textContent = '';
      try {
        await act(form);
      } catch (err) {
        error.textContent = err.name === 'NotAllowedError' ? 'The browser did not use a passkey.' : err.message;
      }
    });
  };

  on('passkey-add', async () => {
    const password = document.getElementById('passkey-password')?.value ?? '';
    const begun = await call('begin', { current_password: password });
    const credential = await navigator.credentials.create({ publicKey: options(begun.options) });
    const name = document.getElementById('passkey-name').value;
    await call('finish', { challenge: begun.challenge, name, credential: answered(credential) });
    location.assign('/account');
  });

  on('passkey-signin', async (form) => {
    const begun = await call('login/begin', {});
    const credential = await navigator.credentials.get({ publicKey: options(begun.options) });
    await call('login', { challenge: begun.challenge, credential: answered(credential) });
    const { authorize } = form.dataset;
    location.assign(authorize ? `/oauth/authorize?${authorize}` : '/account');
  });
})();
