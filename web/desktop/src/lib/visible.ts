// Characters that have no look of their own: control characters but tab and line feed, and those that turn the direction of
// writing, by which a text or a name can look like another one.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]|\r(?!\n)/g;

const named = (char: string): string => `[U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`;

// Every character that cannot be seen or that changes how others are seen, for texts that a person decides about. Blanks, tabs and
// line ends stay.
const unseen = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** exact is visible for a text that a person decides about: it also marks characters that other texts need, such as joiners. */
export const exact = (text: string): string => text.replace(unseen, (char) => (/[\n\t ]/.test(char) ? char : named(char)));

/** visible shows the characters of a text of others that cannot be seen, so that it reads as what it is. */
export const visible = (text: string): string => text.replace(hidden, named);

// What terminals take for colours, titles and the place of the cursor (ECMA-48).
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_=>78])/g;

/** plainOutput is the output of a command without what is for terminals; of a line that was written over, the last form counts. */
export const plainOutput = (text: string): string =>
  text.replace(escapes, '').replace(/(?<!\r)\r+\n/g, '\n').replace(/^[^\n]*\r(?=[^\n])/gm, '');
