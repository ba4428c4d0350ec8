/** compareVersions orders versions as 2611.0.0 and 2611.0.0-beta.1; a pre-release is before its release. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parse(a), parse(b)];
  for (let i = 0; i < 3; i++) {
    const order = (left.numbers[i] ?? 0) - (right.numbers[i] ?? 0);
    if (order !== 0) return order;
  }
  if (left.suffix === right.suffix) return 0;
  if (left.suffix === '' || right.suffix === '') return left.suffix === '' ? 1 : -1;
  return left.suffix.localeCompare(right.suffix, 'en', { numeric: true });
}

function parse(version: string): { numbers: number[]; suffix: string } {
  const [core = '', ...suffix] = version.replace(/^v/, '').split('-');
  return { numbers: core.split('.').map((part) => Number.parseInt(part, 10) || 0), suffix: suffix.join('-') };
}
