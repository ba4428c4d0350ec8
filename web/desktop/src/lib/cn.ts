import { clsx, type ClassValue } from 'clsx';

/** cn joins class names, leaving out what is false. */
export const cn = (...names: ClassValue[]): string => clsx(names);
