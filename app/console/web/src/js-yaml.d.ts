/** The part of js-yaml that the console uses. */
declare module "js-yaml" {
  export interface Schema {
    readonly extend: unknown;
  }
  /** YAML 1.2 as the service reads it: no dates, and `off` is a text. */
  export const CORE_SCHEMA: Schema;
  export function load(text: string, options: { schema: Schema }): unknown;
}
