/** nonce is what the Content-Security-Policy of this page lets styles of scripts through with. */
export const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
