import { describe, expect, test } from 'vitest';
import { exact, plainOutput, visible } from '../src/lib/visible';

describe('visible', () => {
  test('shows what turns the direction of writing, and control characters', () => {
    expect(visible('invoice\u202egpj.exe')).toBe('invoice[U+202E]gpj.exe');
    expect(visible('\u2066a\u2069')).toBe('[U+2066]a[U+2069]');
    expect(visible('a\0b\u0007c\u001b[2Jd\u007f\u0085')).toBe('a[U+0000]b[U+0007]c[U+001B][2Jd[U+007F][U+0085]');
    expect(visible('one\rtwo')).toBe('one[U+000D]two');
  });
  test('leaves tabs, lines and texts of all writings', () => {
    const text = 'a\tb\r\nc\nשלום \u200fمرحبا 👩‍👩‍👧 中文 é';
    expect(visible(text)).toBe(text);
  });
});

describe('exact', () => {
  test('marks every character that cannot be seen', () => {
    expect(exact('a\u200bb\u200fc\u2060\ufeff\u{e0041}\u00ad\u00a0\u3164')).toBe(
      'a[U+200B]b[U+200F]c[U+2060][U+FEFF][U+E0041][U+00AD][U+00A0][U+3164]',
    );
    expect(exact('\r\n')).toBe('[U+000D]\n');
  });
  test('leaves blanks, tabs, lines and texts of all writings', () => {
    const text = 'a  b\t\nשלום 中文 é';
    expect(exact(text)).toBe(text);
  });
});

describe('plainOutput', () => {
  test('takes away what is for terminals', () => {
    expect(plainOutput('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007end\u001b[2K')).toBe('red end');
    expect(plainOutput('\u001b]8;;https://a.example\u001b\\link\u001b]8;;\u001b\\')).toBe('link');
  });
  test('keeps of a line that was written over its last form', () => expect(plainOutput('x\n10%\r50%\r100%\r\ny\r\n')).toBe('x\n100%\ny\n'));
});
